-- Only the owner of a table may analyze it. Writers of batches call this: a table that has more than doubled since it was
-- last looked at is looked at anew, since autovacuum comes by once a minute, and by then a load has written a hundred
-- thousand rows by plans for an empty table. Where somebody else is at it, it is left to them.
create function freshen_statistics() returns void
    language plpgsql security definer set search_path = pg_catalog, public as $$
declare
    grown regclass;
begin
    for grown in
        select c.oid from pg_class c
        where c.oid in ('public.folders'::regclass, 'public.file_ids'::regclass, 'public.blobs'::regclass,
                        'public.file_versions'::regclass, 'public.files'::regclass, 'public.tag_terms'::regclass,
                        'public.file_tags'::regclass)
          and pg_relation_size(c.oid) / current_setting('block_size')::bigint > 64 + 2 * greatest(c.relpages, 0)
        order by c.oid
    loop
        execute format('analyze (skip_locked) %s', grown);
    end loop;
end $$;
revoke all on function freshen_statistics() from public;
select grant_to_app('execute on function freshen_statistics()');
