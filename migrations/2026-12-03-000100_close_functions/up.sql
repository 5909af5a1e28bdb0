-- Functions of the owner find nothing that their caller made.
--
-- A session's temporary relations and types are looked up before all else unless `pg_temp` is named in the search path, so
-- that it must be named, and last. With `public` left out as well, whatever is not of Postgres has to name its schema.
-- No caller of the application role makes temporary objects any more either: `migrate` revokes that right.

create or replace function api_key(of_tenant bigint, of_key bigint)
    returns table (secret_sha256 bytea, scopes text[], slates text[], expires_at timestamptz, revoked_at timestamptz)
    language plpgsql stable security definer set search_path = pg_catalog, pg_temp rows 1
    as $$
    begin
        return query select k.secret_sha256, k.scopes, k.slates, k.expires_at, k.revoked_at
        from public.api_keys k where k.tenant_id = of_tenant and k.id = of_key;
    end $$;

create or replace function purge_versions(of_tenant bigint, of_files bigint[], of_versions bigint[]) returns void
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if of_tenant is distinct from public.app_tenant() then
        raise exception 'a transaction purges for its own tenant alone';
    end if;
    update public.file_versions v set purged_at = pg_catalog.now()
        from rows from (pg_catalog.unnest(of_files), pg_catalog.unnest(of_versions)) as gone (file_id, version)
        where v.tenant_id = of_tenant and v.file_id = gone.file_id and v.version = gone.version and v.purged_at is null;
    delete from public.blobs b
        using (select distinct v.sha256 from public.file_versions v
                 join rows from (pg_catalog.unnest(of_files), pg_catalog.unnest(of_versions)) as gone (file_id, version)
                   on v.file_id = gone.file_id and v.version = gone.version
                where v.tenant_id = of_tenant) as purged
        where b.tenant_id = of_tenant and b.sha256 = purged.sha256
          and not exists (select from public.file_versions v where v.tenant_id = of_tenant and v.blob = b.sha256);
end $$;

create or replace function drop_terms(of_tenant bigint, of_terms bigint[]) returns bigint
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    dropped bigint;
begin
    if of_tenant is distinct from public.app_tenant() then
        raise exception 'a transaction drops the terms of its own tenant alone';
    end if;
    delete from public.tag_terms t
        where t.tenant_id = of_tenant and t.id = any(of_terms)
          and t.id <> all(array(select distinct used.id from public.file_tags f
              cross join lateral pg_catalog.unnest(f.term_ids) as used (id)
              where f.tenant_id = of_tenant and f.term_ids && of_terms));
    get diagnostics dropped = row_count;
    delete from public.tag_keys k
        where k.tenant_id = of_tenant
          and not exists (select from public.tag_terms t where t.tenant_id = of_tenant and t.key_id = k.id);
    return dropped;
end $$;

create or replace function refresh_statistics() returns bigint
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    changed pg_catalog.regclass;
    refreshed bigint := 0;
begin
    for changed in
        select s.relid from pg_catalog.pg_stat_user_tables s
            where s.schemaname = 'public' and s.n_mod_since_analyze > 1000 + s.n_live_tup / 10
    loop
        execute pg_catalog.format('analyze %s', changed);
        refreshed := refreshed + 1;
    end loop;
    return refreshed;
end $$;

create or replace function freshen_statistics() returns void
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    grown pg_catalog.regclass;
begin
    for grown in
        select c.oid from pg_catalog.pg_class c
        where c.oid in ('public.folders'::pg_catalog.regclass, 'public.file_ids'::pg_catalog.regclass,
                        'public.blobs'::pg_catalog.regclass, 'public.file_versions'::pg_catalog.regclass,
                        'public.files'::pg_catalog.regclass, 'public.tag_terms'::pg_catalog.regclass,
                        'public.file_tags'::pg_catalog.regclass)
          and pg_catalog.pg_relation_size(c.oid) / pg_catalog.current_setting('block_size')::bigint
              > 64 + 2 * greatest(c.relpages, 0)
        order by c.oid
    loop
        execute pg_catalog.format('analyze (skip_locked) %s', grown);
    end loop;
end $$;

create or replace function analyze_passages() returns void
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    analyze public.passages;
end $$;

create or replace function erase_tenant(of_tenant bigint) returns void
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    remaining pg_catalog.oid[];
    erased pg_catalog.oid;
begin
    if not public.app_operator() then
        raise exception 'only the operator erases a tenant';
    end if;
    select pg_catalog.array_agg(c.oid) into remaining
        from pg_catalog.pg_class c join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attname = 'tenant_id'
        where c.relkind in ('r', 'p') and c.relnamespace = 'public'::pg_catalog.regnamespace;
    while pg_catalog.cardinality(remaining) > 0 loop
        select t into erased from pg_catalog.unnest(remaining) as t
            where not exists (select from pg_catalog.pg_constraint k where k.contype = 'f' and k.confrelid = t
                and k.conrelid <> t and k.conrelid = any(remaining))
            order by t limit 1;
        if erased is null then
            raise exception 'tables refer to each other in a circle';
        end if;
        execute pg_catalog.format('delete from %s where tenant_id = $1', erased::pg_catalog.regclass) using of_tenant;
        remaining := pg_catalog.array_remove(remaining, erased);
        erased := null;
    end loop;
    delete from public.tenants where id = of_tenant;
end $$;

revoke all on function api_key(bigint, bigint), purge_versions(bigint, bigint[], bigint[]), drop_terms(bigint, bigint[]),
    refresh_statistics(), freshen_statistics(), analyze_passages(), erase_tenant(bigint) from public;

-- What every policy asks, bound to Postgres's own functions now, not looked up by the path of whoever asks. A search path
-- of their own would do that too, but then they would not become a part of the plan.
create or replace function app_tenant() returns bigint language sql stable parallel safe
    return nullif(current_setting('app.tenant_id', true), '')::bigint;
create or replace function app_operator() returns boolean language sql stable parallel safe
    return coalesce(current_setting('app.operator', true), '') = 'on';
