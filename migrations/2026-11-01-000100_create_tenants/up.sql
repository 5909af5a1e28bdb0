-- Tenants, their keys and settings, and the two settings of a transaction that row-level security reads.

-- The tenant that the transaction works for. Unset means no rows, never all rows; once a transaction that set it has
-- ended the setting reads '' rather than NULL.
create function app_tenant() returns bigint language sql stable parallel safe
    as $$ select nullif(current_setting('app.tenant_id', true), '')::bigint $$;

-- Whether the transaction is the operator's, who may list and make tenants.
create function app_operator() returns boolean language sql stable parallel safe
    as $$ select coalesce(current_setting('app.operator', true), '') = 'on' $$;

-- Two helpers of the migrations, out of the application's reach. The name of the application role is a setting,
-- because roles belong to the cluster and so carry a suffix for each database.
create function grant_to_app(what text) returns void language plpgsql
    as $$ begin execute format('grant %s to %I', what, current_setting('slatebase.app_role')); end $$;

create function isolate(tenant_table regclass) returns void language plpgsql as $$
begin
    execute format('alter table %s enable row level security', tenant_table);
    execute format('create policy tenant on %s using (tenant_id = app_tenant()) with check (tenant_id = app_tenant())',
                   tenant_table);
end $$;

revoke all on function grant_to_app(text), isolate(regclass) from public;

create table tenants (
    id         bigint generated always as identity constraint tenants_pk primary key,
    name       text collate "C" not null constraint tenants_name unique,
    created_at timestamptz not null,
    constraint tenants_name_check check (name ~ '^[a-z0-9-]{1,63}$')
);
alter table tenants enable row level security;
create policy tenant on tenants using (id = app_tenant() or app_operator()) with check (app_operator());

create table tenant_settings (
    tenant_id              bigint not null constraint settings_pk primary key
                           constraint settings_tenant references tenants (id),
    default_slate          text,
    deny_globs             text[] not null,
    -- deny_globs as one regular expression over whole paths, null where there are none
    deny_regex             text,
    session_retention_days integer not null default 90,
    revision               bigint not null default 1,
    constraint settings_retention_check check (session_retention_days between 1 and 36500)
);
select isolate('tenant_settings');

create table api_keys (
    tenant_id     bigint not null constraint keys_tenant references tenants (id),
    id            bigint generated always as identity,
    label         text not null,
    secret_sha256 bytea not null,
    scopes        text[] not null,
    -- the only slates the key may touch; null is all of them
    slates        text[],
    created_at    timestamptz not null,
    expires_at    timestamptz,
    revoked_at    timestamptz,
    constraint keys_pk primary key (tenant_id, id),
    constraint keys_scopes_check check (scopes <@ array['read', 'write', 'retrieve', 'admin'])
);
select isolate('api_keys');

-- The row of one key, before its tenant is known to be the caller's: the one door that opens without a tenant.
create function api_key(of_tenant bigint, of_key bigint)
    returns table (secret_sha256 bytea, scopes text[], slates text[], expires_at timestamptz, revoked_at timestamptz)
    language sql stable security definer set search_path = pg_catalog, public
    as $$
        select k.secret_sha256, k.scopes, k.slates, k.expires_at, k.revoked_at
        from public.api_keys k where k.tenant_id = of_tenant and k.id = of_key
    $$;
revoke all on function api_key(bigint, bigint) from public;

-- The first results of POSTs, for a day (REST contract, "Writing safely"). Tenant 0 is the operator.
create table idempotency_keys (
    tenant_id      bigint not null,
    key_id         bigint not null,
    key            text collate "C" not null,
    request_sha256 bytea not null,
    -- null while the first call is running, which is until lease_until at the latest
    status         smallint,
    content_type   text,
    etag           text,
    body           bytea,
    lease_until    timestamptz not null,
    created_at     timestamptz not null,
    constraint idempotency_pk primary key (tenant_id, key_id, key)
);
create index idempotency_age on idempotency_keys (tenant_id, created_at);
select isolate('idempotency_keys');

select grant_to_app('execute on function api_key(bigint, bigint)');
select grant_to_app('select, insert on tenants');
select grant_to_app('select, insert, update on tenant_settings');
select grant_to_app('select, insert, update (revoked_at) on api_keys');
select grant_to_app('select, insert, update, delete on idempotency_keys');
