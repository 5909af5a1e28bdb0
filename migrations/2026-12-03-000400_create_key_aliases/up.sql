-- Fixed tokens: texts of the operator's choice that open a key, for callers that can send no other. Only their hashes are kept.
-- Not even the key's own tenant sees them: a transaction has to be the operator's, and have entered the tenant.
-- It is read before a tenant is known, so that a distributed database keeps it in one place, and it refers to no table.

create table key_aliases (
    tenant_id  bigint not null,
    key_id     bigint not null,
    -- a token opens one key, of whichever tenant
    sha256     bytea not null constraint aliases_taken unique,
    created_at timestamptz not null,
    constraint aliases_pk primary key (tenant_id, key_id),
    constraint aliases_sha256_check check (octet_length(sha256) = 32)
);
alter table key_aliases enable row level security;
create policy operator on key_aliases using (tenant_id = app_tenant() and app_operator())
    with check (tenant_id = app_tenant() and app_operator());
select grant_to_app('select, insert, update (sha256, created_at), delete on key_aliases');

-- The key that the token of this hash opens, before its tenant is known.
create function key_of_alias(of_sha256 bytea)
    returns table (tenant_id bigint, key_id bigint, scopes text[], slates text[], expires_at timestamptz, revoked_at timestamptz)
    language plpgsql stable security definer set search_path = pg_catalog, pg_temp rows 1
    as $$
    begin
        return query select k.tenant_id, k.id, k.scopes, k.slates, k.expires_at, k.revoked_at
        from public.key_aliases a join public.api_keys k on k.tenant_id = a.tenant_id and k.id = a.key_id
        where a.sha256 = of_sha256;
    end $$;
revoke all on function key_of_alias(bytea) from public;
select grant_to_app('execute on function key_of_alias(bytea)');
