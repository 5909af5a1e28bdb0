-- Small contents are kept in the row of the file whose head they are: a page of files is read from one table, at three buffers a
-- file in place of eight. Large ones, and those of earlier versions, stay in `blobs`, once for each hash.
--
-- Nothing is rewritten here, so the locks are held for a moment, and waited for ten seconds at most: a migration that does not get
-- them changes nothing, and can be run again. Files that are there already keep their contents in `blobs` until
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

-- Moves contents of at most so many bytes into the rows of files after the number `after`, some hundred at a time, and takes away
-- what no version needs in `blobs` any more. Gives the last number that it looked at, null at the end.
create function move_contents(of_tenant bigint, after bigint, most bigint) returns bigint
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    ids bigint[];
    moved bytea[];
begin
    if of_tenant is distinct from public.app_tenant() then
        raise exception 'a transaction moves the contents of its own tenant alone';
    end if;
    select array_agg(l.id), array_agg(l.sha256) filter (where l.data is null and l.size <= most) into ids, moved from (
        select f.id, f.sha256, f.data, f.size from public.files f
        where f.tenant_id = of_tenant and f.id > after order by f.id limit 500) as l;
    if ids is null then
        return null;
    end if;
    if moved is not null then
        update public.files f set data = b.data from public.blobs b
            where f.tenant_id = of_tenant and f.id = any(ids) and f.data is null and f.size <= most
              and b.tenant_id = of_tenant and b.sha256 = f.sha256 and octet_length(b.data) = f.size;
        -- A blob stays for a version that is no head, and for a head that is not moved yet.
        delete from public.blobs b
            where b.tenant_id = of_tenant and b.sha256 = any(moved)
              and not exists (select from public.file_versions v
                  left join public.files f on f.tenant_id = of_tenant and f.id = v.file_id and f.sha256 = v.sha256
                  where v.tenant_id = of_tenant and v.blob = b.sha256 and f.data is null);
    end if;
    return ids[cardinality(ids)];
end $$;
revoke all on function move_contents(bigint, bigint, bigint) from public;
select grant_to_app('execute on function move_contents(bigint, bigint, bigint)');

-- Names by slate, with all that a search by pattern gives: rows are larger now, and need not be read for it. It is also the larger
-- of the two indexes that begin with a slate, so that a path is looked up in the other one also where statistics tell of no files.
drop index files_slate_name;
create index files_slate_name on files (tenant_id, slate_id, name) include (path, id, hidden);
-- How many files an export leaves out.
create index files_hidden on files (tenant_id, slate_id, path) where hidden;
