-- The bodies name their schemas, and do the same by the former path.
alter function api_key(bigint, bigint) set search_path = pg_catalog, public;
alter function purge_versions(bigint, bigint[], bigint[]) set search_path = pg_catalog, public;
alter function drop_terms(bigint, bigint[]) set search_path = pg_catalog, public;
alter function refresh_statistics() set search_path = pg_catalog, public;
alter function freshen_statistics() set search_path = pg_catalog, public;
alter function analyze_passages() set search_path = pg_catalog, public;
alter function erase_tenant(bigint) set search_path = pg_catalog, public;

create or replace function app_tenant() returns bigint language sql stable parallel safe
    as $$ select nullif(current_setting('app.tenant_id', true), '')::bigint $$;
create or replace function app_operator() returns boolean language sql stable parallel safe
    as $$ select coalesce(current_setting('app.operator', true), '') = 'on' $$;
