-- Retrieval sessions, and the record of all that was shown.

-- One manifest row a response: element n of the arrays is item n of it.
create table provenance (
    tenant_id   bigint not null constraint provenance_tenant references tenants (id),
    id          uuid not null,
    kind        text not null,
    key_id      bigint,
    session_id  uuid,
    round       integer,
    -- where it stands in its chain, from 1, and the hash of the record before it
    position    bigint not null,
    previous    bytea,
    hash        bytea not null,
    created_at  timestamptz not null,
    slate       text,
    folder      text,
    recursive   boolean not null default false,
    request     json,
    file_ids    bigint[] not null,
    versions    bigint[] not null,
    statuses    smallint[] not null,
    matched_by  smallint[] not null,
    authorities smallint[] not null,
    freshness   smallint[] not null,
    -- what was asked, for the items that are no file: {"n": "path"}
    asked       json not null,
    constraint provenance_pk primary key (tenant_id, id),
    constraint provenance_chain unique (tenant_id, session_id, position)
);
select isolate('provenance');

-- The manifests a row an item. It runs with the reader's own rights, policies included.
create view provenance_items with (security_invoker = true) as
    select p.tenant_id, p.id as record_id, i.n, p.kind, p.session_id, p.round, p.position, p.created_at, p.slate, p.folder,
           i.file_id, i.version, i.status, i.matched_by, i.authority, i.freshness,
           p.asked ->> i.n::text as asked,
           v.path, v.sha256, v.size, v.media_type, v.is_text, v.source_modified_at, v.source_version,
           v.created_at as version_created_at, v.purged_at
    from provenance p
    cross join lateral unnest(p.file_ids, p.versions, p.statuses, p.matched_by, p.authorities, p.freshness)
         with ordinality as i (file_id, version, status, matched_by, authority, freshness, n)
    left join file_versions v on v.tenant_id = p.tenant_id and v.file_id = i.file_id and v.version = i.version;

create table sessions (
    tenant_id       bigint not null constraint sessions_tenant references tenants (id),
    id              uuid not null,
    slate           text not null,
    folder          text not null,
    declaration     json not null,
    fields          json not null,
    goal            json,
    working         json not null,
    status          text not null,
    round           integer not null default 0,
    epoch           integer not null default 1,
    -- bytes of contents shown so far, for maxTotalBytes
    shown_bytes     bigint not null default 0,
    answer          json,
    forced          boolean not null default false,
    failure         json,
    chain_length    bigint not null default 0,
    chain_hash      bytea,
    revision        bigint not null default 1,
    created_at      timestamptz not null,
    updated_at      timestamptz not null,
    finished_at     timestamptz,
    constraint sessions_pk primary key (tenant_id, id),
    constraint sessions_status_check check (status in ('open', 'exhausted', 'answered', 'failed', 'cancelled'))
);
create index sessions_status on sessions (tenant_id, status, id);
create index sessions_finished on sessions (tenant_id, finished_at) where finished_at is not null;
select isolate('sessions');

-- A round taken never changes. What was shown is in its manifest; only what no version holds is kept here.
create table rounds (
    tenant_id       bigint not null,
    session_id      uuid not null,
    number          integer not null,
    epoch           integer not null,
    output          json not null,
    idempotency_key text collate "C",
    decision        text not null,
    reason          text,
    forced          boolean not null,
    record_id       uuid,
    ignored         json not null,
    errors          json not null,
    -- {"n": …} of the manifest's items: listings as they were, and hints
    listings        json not null,
    hints           json not null,
    -- {"n": {"path", "head_version"}} of repeated items whose file has another path, or other bytes, than what is in context
    repeats         json not null,
    truncated       boolean not null,
    omitted_files   bigint not null,
    omitted_bytes   bigint not null,
    total           bigint,
    status          text not null,
    created_at      timestamptz not null,
    constraint rounds_pk primary key (tenant_id, session_id, number),
    constraint rounds_idempotency unique (tenant_id, session_id, idempotency_key),
    constraint rounds_session foreign key (tenant_id, session_id) references sessions (tenant_id, id),
    constraint rounds_decision_check check (decision in ('retrieval', 'answer'))
);
select isolate('rounds');

-- What is in context. Its key makes a double fetch impossible: slot is 0, or the version under refetchChanged.
create table session_context (
    tenant_id  bigint not null,
    session_id uuid not null,
    epoch      integer not null,
    file_id    bigint not null,
    slot       bigint not null,
    version    bigint not null,
    -- where it was shown
    round      integer not null,
    item       integer not null,
    constraint context_pk primary key (tenant_id, session_id, epoch, file_id, slot),
    constraint context_session foreign key (tenant_id, session_id) references sessions (tenant_id, id)
);
select isolate('session_context');

-- The end of a finished session's chain; it stays when the session goes.
create table session_seals (
    tenant_id  bigint not null constraint seals_tenant references tenants (id),
    session_id uuid not null,
    records    bigint not null,
    last_hash  bytea,
    sealed_at  timestamptz not null,
    constraint seals_pk primary key (tenant_id, session_id)
);
select isolate('session_seals');

select grant_to_app('select, insert on provenance, session_seals');
select grant_to_app('select on provenance_items');
select grant_to_app('select, insert, update, delete on sessions');
select grant_to_app('select, insert, delete on rounds, session_context');

-- The only way out of what is append-only.
create function erase_tenant(of_tenant bigint) returns void
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
revoke all on function erase_tenant(bigint) from public;
select grant_to_app('execute on function erase_tenant(bigint)');
