create or replace function api_key(of_tenant bigint, of_key bigint)
    returns table (secret_sha256 bytea, scopes text[], slates text[], expires_at timestamptz, revoked_at timestamptz)
    language sql stable security definer set search_path = pg_catalog, public rows 1000
    as $$
        select k.secret_sha256, k.scopes, k.slates, k.expires_at, k.revoked_at
        from public.api_keys k where k.tenant_id = of_tenant and k.id = of_key
    $$;
