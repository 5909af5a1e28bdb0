-- Passages of text files, for gateways.

-- A gateway is asked for a corpus by its index name as well.
alter table corpora add column collection text collate "C" not null default '';
create index corpora_collection on corpora (tenant_id, collection);

-- A name of pg_ts_config: by it the passages of the slate's files are split into words.
alter table slates add column language text not null default 'simple';

-- The folders that published corpora lie in; by the slate's name, since the slate may come later.
create table passage_roots (
    tenant_id bigint not null constraint roots_tenant references tenants (id),
    id        bigint generated always as identity,
    slate     text collate "C" not null,
    path      text collate "C" not null,
    constraint roots_pk primary key (tenant_id, id),
    constraint roots_place unique (tenant_id, slate, path)
);
select isolate('passage_roots');

-- The head versions of the files below a root, cut into pieces. A file below two roots is there for each.
create table passages (
    tenant_id  bigint not null,
    root_id    bigint not null,
    file_id    bigint not null,
    -- from 1
    position   integer not null,
    -- the file's, repeated because results are ordered by it
    path       text collate "C" not null,
    title      text not null,
    heading    text not null,
    text       text not null,
    first_line integer not null,
    last_line  integer not null,
    tsv        tsvector not null,
    constraint passages_pk primary key (tenant_id, file_id, root_id, position),
    constraint passages_root foreign key (tenant_id, root_id) references passage_roots (tenant_id, id),
    constraint passages_file foreign key (tenant_id, file_id) references file_ids (tenant_id, id)
-- Ranking reads the words of every match: in the row, as they are, they are read at once.
) with (toast_tuple_target = 8160);
create index passages_order on passages (tenant_id, root_id, path, position);
create index passages_search on passages using gin (root_id, tsv) with (fastupdate = off);
select isolate('passages');

-- `@@` is not leakproof either.
create view search_passages as select * from passages where tenant_id = app_tenant();

-- Only the owner of a table may analyze it.
create function analyze_passages() returns void
    language plpgsql security definer set search_path = pg_catalog, public as $$
begin
    analyze public.passages;
end $$;
revoke all on function analyze_passages() from public;
select grant_to_app('execute on function analyze_passages()');
alter table passages alter column root_id set statistics 1000;

select grant_to_app('select, insert, delete on passage_roots');
select grant_to_app('select, insert, update, delete on passages');
select grant_to_app('select on search_passages');
