drop table catalog_versions, corpora;
create or replace function erase_tenant(of_tenant bigint) returns void
    language plpgsql security definer set search_path = pg_catalog, public as $$
declare
    erased text;
begin
    if not public.app_operator() then
        raise exception 'only the operator erases a tenant';
    end if;
    foreach erased in array array['session_context', 'rounds', 'session_seals', 'sessions', 'provenance', 'file_tags',
        'tag_terms', 'tag_keys', 'files', 'file_versions', 'blobs', 'file_ids', 'folders', 'slates', 'idempotency_keys',
        'api_keys', 'tenant_settings']
    loop
        execute format('delete from public.%I where tenant_id = $1', erased) using of_tenant;
    end loop;
    delete from public.tenants where id = of_tenant;
end $$;
