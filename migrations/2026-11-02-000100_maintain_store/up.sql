-- Keeping up: what only the owner of the tables may do.

-- Takes terms out of the dictionary that no file uses, and names of metatags that have no terms left. The caller holds off
-- the tenant's writers by the lock that they share, so that nobody is about to use one.
create function drop_terms(of_tenant bigint, of_terms bigint[]) returns bigint
    language plpgsql security definer set search_path = pg_catalog, public as $$
declare
    dropped bigint;
begin
    if of_tenant is distinct from public.app_tenant() then
        raise exception 'a transaction drops the terms of its own tenant alone';
    end if;
    delete from public.tag_terms t
        where t.tenant_id = of_tenant and t.id = any(of_terms)
          and t.id <> all(array(select distinct used.id from public.file_tags f
              cross join lateral unnest(f.term_ids) as used (id)
              where f.tenant_id = of_tenant and f.term_ids && of_terms));
    get diagnostics dropped = row_count;
    delete from public.tag_keys k
        where k.tenant_id = of_tenant
          and not exists (select from public.tag_terms t where t.tenant_id = of_tenant and t.key_id = k.id);
    return dropped;
end $$;
revoke all on function drop_terms(bigint, bigint[]) from public;
select grant_to_app('execute on function drop_terms(bigint, bigint[])');

-- Analyzes the tables that have changed much since they were; tells how many those are.
create function refresh_statistics() returns bigint
    language plpgsql security definer set search_path = pg_catalog, public as $$
declare
    changed regclass;
    refreshed bigint := 0;
begin
    for changed in
        select s.relid::regclass from pg_stat_user_tables s
            where s.schemaname = 'public' and s.n_mod_since_analyze > 1000 + s.n_live_tup / 10
    loop
        execute format('analyze %s', changed);
        refreshed := refreshed + 1;
    end loop;
    return refreshed;
end $$;
revoke all on function refresh_statistics() from public;
select grant_to_app('execute on function refresh_statistics()');
