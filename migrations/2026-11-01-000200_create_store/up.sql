-- Slates hold folders, folders hold files; a file's contents are immutable versions over shared blobs.

-- A slate that was deleted keeps its row, and its number: (slate, path, version) names one set of bytes for ever,
-- also when a slate of the same name is made again.
create table slates (
    tenant_id       bigint not null constraint slates_tenant references tenants (id),
    id              bigint generated always as identity,
    name            text collate "C" not null,
    description     text,
    authority       text constraint slates_authority_check check (authority in ('low', 'medium', 'high')),
    volatile        boolean not null default false,
    max_age_seconds bigint,
    retention_days  integer not null default 30,
    metatag_types   jsonb not null default '{}',
    revision        bigint not null default 1,
    created_at      timestamptz not null,
    updated_at      timestamptz not null,
    deleted_at      timestamptz,
    constraint slates_pk primary key (tenant_id, id),
    constraint slates_name unique (tenant_id, name)
);
select isolate('slates');

-- Every slate has its root folder as a row, whose path is ''.
create table folders (
    tenant_id  bigint not null,
    id         bigint generated always as identity,
    slate_id   bigint not null,
    parent_id  bigint,
    path       text collate "C" not null,
    name       text collate "C" not null,
    -- the name as an index prints it, and so the key that indexes are ordered by
    entry      text collate "C" not null generated always as (name || '/') stored,
    -- the path in normal form C, kept only where it can differ from another spelling
    nfc        text collate "C" generated always as
               (case when octet_length(path) > char_length(path) then normalize(path, NFC) end) stored,
    authority  text constraint folders_authority_check check (authority in ('low', 'medium', 'high')),
    sensitive  boolean not null default false,
    -- sensitive, below a sensitive folder, or denied by the tenant's globs: never read through any front door
    hidden     boolean not null default false,
    created_at timestamptz not null,
    constraint folders_pk primary key (tenant_id, id),
    constraint folders_path unique (tenant_id, slate_id, path),
    constraint folders_entry unique (tenant_id, parent_id, entry),
    constraint folders_slate foreign key (tenant_id, slate_id) references slates (tenant_id, id),
    constraint folders_parent foreign key (tenant_id, parent_id) references folders (tenant_id, id),
    constraint folders_path_check check (octet_length(path) <= 1024)
);
create unique index folders_nfc on folders (tenant_id, slate_id, nfc) where nfc is not null;
select isolate('folders');

-- A file's identity outlives its path and its deletion.
create table file_ids (
    tenant_id  bigint not null,
    id         bigint generated always as identity,
    slate_id   bigint not null,
    created_at timestamptz not null,
    deleted_at timestamptz,
    constraint identities_pk primary key (tenant_id, id),
    constraint identities_slate foreign key (tenant_id, slate_id) references slates (tenant_id, id)
);
create index identities_deleted on file_ids (tenant_id, slate_id, deleted_at) where deleted_at is not null;
select isolate('file_ids');

create table blobs (
    tenant_id bigint not null constraint blobs_tenant references tenants (id),
    sha256    bytea not null,
    data      bytea not null,
    constraint blobs_pk primary key (tenant_id, sha256)
);
do $$
begin
    alter table blobs alter column data set compression lz4;
exception when feature_not_supported or invalid_parameter_value then
    raise notice 'this Postgres was built without lz4; contents are compressed by pglz';
end $$;
select isolate('blobs');

create table file_versions (
    tenant_id          bigint not null,
    slate_id           bigint not null,
    path               text collate "C" not null,
    version            bigint not null,
    file_id            bigint not null,
    sha256             bytea not null,
    size               bigint not null,
    media_type         text not null,
    -- UTF-8 without U+0000
    is_text            boolean not null,
    source_modified_at timestamptz,
    source_version     text,
    created_at         timestamptz not null,
    purged_at          timestamptz,
    -- holds the bytes for as long as the version is kept
    blob               bytea generated always as (case when purged_at is null then sha256 end) stored,
    constraint versions_pk primary key (tenant_id, file_id, version),
    constraint versions_path unique (tenant_id, slate_id, path, version),
    constraint versions_file foreign key (tenant_id, file_id) references file_ids (tenant_id, id),
    constraint versions_blob foreign key (tenant_id, blob) references blobs (tenant_id, sha256)
);
create index versions_blob on file_versions (tenant_id, blob) where blob is not null;
select isolate('file_versions');

-- Live files only.
create table files (
    tenant_id  bigint not null,
    id         bigint not null,
    slate_id   bigint not null,
    folder_id  bigint not null,
    name       text collate "C" not null,
    path       text collate "C" not null,
    nfc        text collate "C" generated always as
               (case when octet_length(path) > char_length(path) then normalize(path, NFC) end) stored,
    size       bigint not null,
    version    bigint not null,
    sha256     bytea not null,
    media_type text not null,
    is_text    boolean not null,
    authority  text constraint files_authority_check check (authority in ('low', 'medium', 'high')),
    sensitive  boolean not null default false,
    hidden     boolean not null default false,
    -- counts changes of what is not contents
    revision   bigint not null default 1,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    constraint files_pk primary key (tenant_id, id),
    constraint files_name unique (tenant_id, folder_id, name) include (id, size, hidden),
    constraint files_path unique (tenant_id, slate_id, path) include (id, name, size, hidden),
    constraint files_identity foreign key (tenant_id, id) references file_ids (tenant_id, id),
    constraint files_slate foreign key (tenant_id, slate_id) references slates (tenant_id, id),
    constraint files_folder foreign key (tenant_id, folder_id) references folders (tenant_id, id),
    constraint files_head foreign key (tenant_id, id, version) references file_versions (tenant_id, file_id, version),
    constraint files_name_check check (octet_length(name) between 1 and 255),
    constraint files_path_check check (octet_length(path) <= 1024)
);
create unique index files_nfc on files (tenant_id, slate_id, nfc) where nfc is not null;
create index files_slate_name on files (tenant_id, slate_id, name);
create index files_search on files using gin (slate_id, folder_id, name gin_trgm_ops);
alter table files alter column folder_id set statistics 1000;
create statistics files_folders on tenant_id, folder_id from files;
select isolate('files');

select grant_to_app('select, insert, update on slates');
select grant_to_app('select, insert, update, delete on folders');
select grant_to_app('select, insert, update (deleted_at) on file_ids');
select grant_to_app('select, insert on blobs, file_versions');
select grant_to_app('select, insert, update, delete on files');

-- The bytes of these versions go now, where no unpurged version of the tenant has them; hashes and records stay.
create function purge_versions(of_tenant bigint, of_files bigint[], of_versions bigint[]) returns void
    language plpgsql security definer set search_path = pg_catalog, public as $$
begin
    if of_tenant is distinct from public.app_tenant() then
        raise exception 'a transaction purges for its own tenant alone';
    end if;
    update public.file_versions v set purged_at = now()
        from unnest(of_files, of_versions) as gone (file_id, version)
        where v.tenant_id = of_tenant and v.file_id = gone.file_id and v.version = gone.version and v.purged_at is null;
    delete from public.blobs b
        using (select distinct v.sha256 from public.file_versions v
                 join unnest(of_files, of_versions) as gone (file_id, version)
                   on v.file_id = gone.file_id and v.version = gone.version
                where v.tenant_id = of_tenant) as purged
        where b.tenant_id = of_tenant and b.sha256 = purged.sha256
          and not exists (select from public.file_versions v where v.tenant_id = of_tenant and v.blob = b.sha256);
end $$;
revoke all on function purge_versions(bigint, bigint[], bigint[]) from public;
select grant_to_app('execute on function purge_versions(bigint, bigint[], bigint[])');
