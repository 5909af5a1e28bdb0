-- Small contents are kept in the row of the file whose head they are: a page of files is read from one table, at three buffers a
-- file in place of eight. Large ones, and those of earlier versions, stay in `blobs`, once for each hash.
--
-- Nothing is rewritten here, so the locks are held for a moment, and waited for ten seconds at most: a migration that does not get
-- them changes nothing, and can be run again. (The indexes take a second or two for a million files; writers wait for these.) Files
-- that are there already keep their contents in `blobs` until
-- `slatebase maintain` moves them, in batches, while the service runs. A server of the version before can run on meanwhile;
-- what a new one writes it lists and finds, and reads once it is new itself.
set local lock_timeout = '10s';

alter table files add column data bytea;
-- A row may have half a page, as it is: it would be compressed, or cut apart, past a quarter.
alter table files set (toast_tuple_target = 4080);
alter table files add constraint files_data_check check (octet_length(data) = size) not valid;

-- The bytes of a version may now be in the row of its file.
alter table file_versions drop constraint versions_blob;

-- The bytes of each version that has any: in the row of its file, while that has the same, else among the blobs. It runs with the
-- reader's own rights, policies included.
create view version_contents with (security_invoker = true) as
    select v.tenant_id, v.file_id, v.version, v.sha256, coalesce(f.data, b.data) as data
    from file_versions v
    left join files f on f.tenant_id = v.tenant_id and f.id = v.file_id and f.sha256 = v.sha256
    left join blobs b on b.tenant_id = v.tenant_id and b.sha256 = v.sha256
    where v.purged_at is null and (f.data is not null or b.data is not null);
select grant_to_app('select on version_contents');

-- Small contents that are still among the blobs; empty once they have been moved.
create index files_to_move on files (tenant_id, id) where data is null and size <= 3072;

-- Moves small contents into the rows of files after the number `after`, some hundred at a time, and takes away what no version needs
-- in `blobs` any more. Gives the number of the last file that it looked at, null at the end. The caller holds off the tenant's
-- writers by the lock that they share.
create function move_contents(of_tenant bigint, after bigint) returns bigint
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    ids bigint[];
    hashes bytea[];
begin
    if of_tenant is distinct from public.app_tenant() then
        raise exception 'a transaction moves the contents of its own tenant alone';
    end if;
    select pg_catalog.array_agg(l.id), pg_catalog.array_agg(distinct l.sha256) into ids, hashes from (
        select f.id, f.sha256 from public.files f
        where f.tenant_id = of_tenant and f.data is null and f.size <= 3072 and f.id > after order by f.id limit 500) as l;
    if ids is null then
        return null;
    end if;
    update public.files f set data = b.data from public.blobs b
        where f.tenant_id = of_tenant and f.id = any(ids) and b.tenant_id = of_tenant and b.sha256 = f.sha256
          and pg_catalog.octet_length(b.data) = f.size;
    -- A blob stays for a version that is no head, and for a head that is not moved yet.
    delete from public.blobs b
        where b.tenant_id = of_tenant and b.sha256 = any(hashes)
          and not exists (select from public.file_versions v
              where v.tenant_id = of_tenant and v.blob = b.sha256
                and not exists (select from public.files f where f.tenant_id = of_tenant and f.id = v.file_id
                    and f.sha256 = v.sha256 and f.data is not null));
    return ids[pg_catalog.cardinality(ids)];
end $$;
revoke all on function move_contents(bigint, bigint) from public;
select grant_to_app('execute on function move_contents(bigint, bigint)');

-- Searches never see a hidden file. What looks a path up may, so it cannot take this index for the one of paths, which it did where
-- statistics tell of no files in a slate.
drop index files_slate_name;
create index files_slate_name on files (tenant_id, slate_id, name) where not hidden;
-- How many files an export leaves out.
create index files_hidden on files (tenant_id, slate_id, path) where hidden;

-- The same, with the hashes gathered first: compared one by one with all blobs, they were.
create or replace function purge_versions(of_tenant bigint, of_files bigint[], of_versions bigint[]) returns void
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    hashes bytea[];
begin
    if of_tenant is distinct from public.app_tenant() then
        raise exception 'a transaction purges for its own tenant alone';
    end if;
    update public.file_versions v set purged_at = pg_catalog.now()
        from rows from (pg_catalog.unnest(of_files), pg_catalog.unnest(of_versions)) as gone (file_id, version)
        where v.tenant_id = of_tenant and v.file_id = gone.file_id and v.version = gone.version and v.purged_at is null;
    select pg_catalog.array_agg(distinct v.sha256) into hashes
        from rows from (pg_catalog.unnest(of_files), pg_catalog.unnest(of_versions)) as gone (file_id, version)
        join public.file_versions v
          on v.tenant_id = of_tenant and v.file_id = gone.file_id and v.version = gone.version;
    delete from public.blobs b where b.tenant_id = of_tenant and b.sha256 = any(hashes)
          and not exists (select from public.file_versions v where v.tenant_id = of_tenant and v.blob = b.sha256);
end $$;
