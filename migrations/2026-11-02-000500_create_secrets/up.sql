-- Secrets of the tenants, encrypted by the service: the database never holds a key of theirs.
create table secrets (
    tenant_id  bigint not null constraint secrets_tenant references tenants (id),
    name       text collate "C" not null,
    -- names the master key, and tells nothing of it
    key_id     text not null,
    nonce      bytea not null,
    ciphertext bytea not null,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    constraint secrets_pk primary key (tenant_id, name),
    constraint secrets_name_check check (name ~ '^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$'),
    constraint secrets_nonce_check check (octet_length(nonce) = 24)
);
select isolate('secrets');
select grant_to_app('select, insert, update, delete on secrets');
