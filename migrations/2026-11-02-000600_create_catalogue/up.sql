-- The catalogue: corpora, and versions of routes and capabilities.

create table corpora (
    tenant_id  bigint not null constraint corpora_tenant references tenants (id),
    id         text collate "C" not null,
    -- the row as it was given, members that nobody here knows included
    document   json not null,
    status     text not null,
    -- where a corpus lies that this service serves itself; by name, since the slate may come later
    slate      text collate "C",
    folder     text collate "C",
    revision   bigint not null default 1,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    constraint corpora_pk primary key (tenant_id, id),
    constraint corpora_status_check check (status in ('draft', 'published', 'deprecated')),
    constraint corpora_place_check check ((slate is null) = (folder is null))
);
create index corpora_slate on corpora (tenant_id, slate) where slate is not null;
select isolate('corpora');

-- What is immutable once it is published: routes and capabilities, each (kind, id, version) once.
create table catalog_versions (
    tenant_id  bigint not null constraint versions_tenant references tenants (id),
    kind       text not null,
    id         text collate "C" not null,
    version    text collate "C" not null,
    document   json not null,
    status     text not null,
    revision   bigint not null default 1,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    constraint catalog_versions_pk primary key (tenant_id, kind, id, version),
    constraint catalog_kind_check check (kind in ('route', 'capability')),
    constraint catalog_status_check check (status in ('draft', 'published', 'deprecated'))
);
select isolate('catalog_versions');

select grant_to_app('select, insert, update, delete on corpora');
select grant_to_app('select, insert, update on catalog_versions');

-- Erasing finds the tenant's tables by itself, those that refer to others first, so that no new table is forgotten.
create or replace function erase_tenant(of_tenant bigint) returns void
    language plpgsql security definer set search_path = pg_catalog, public as $$
declare
    remaining oid[];
    erased oid;
begin
    if not public.app_operator() then
        raise exception 'only the operator erases a tenant';
    end if;
    select array_agg(c.oid) into remaining
        from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attname = 'tenant_id'
        where c.relkind in ('r', 'p') and c.relnamespace = 'public'::regnamespace;
    while cardinality(remaining) > 0 loop
        select t into erased from unnest(remaining) as t
            where not exists (select from pg_constraint k where k.contype = 'f' and k.confrelid = t
                and k.conrelid <> t and k.conrelid = any(remaining))
            order by t limit 1;
        if erased is null then
            raise exception 'tables refer to each other in a circle';
        end if;
        execute format('delete from %s where tenant_id = $1', erased::regclass) using of_tenant;
        remaining := array_remove(remaining, erased);
        erased := null;
    end loop;
    delete from public.tenants where id = of_tenant;
end $$;
