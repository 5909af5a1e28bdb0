-- Typed metatags, and the dictionary of terms that `contains` is answered from.

create table tag_keys (
    tenant_id bigint not null constraint tag_keys_tenant references tenants (id),
    id        bigint generated always as identity,
    name      text collate "C" not null,
    constraint tag_keys_pk primary key (tenant_id, id),
    constraint tag_keys_name unique (tenant_id, name)
);
select isolate('tag_keys');

-- Each distinct (key, kind, term) of a tenant once. Kinds: t a text element, x the tag is present, e it has at least one
-- text element, n it is a number, boolean or object, v the canonical form of a number or boolean.
create table tag_terms (
    tenant_id bigint not null,
    id        bigint generated always as identity,
    key_id    bigint not null,
    kind      "char" not null,
    term      text collate "C" not null,
    -- the first 16 bytes of the term's SHA-256: terms may be longer than an index entry
    digest    bytea not null,
    constraint tag_terms_pk primary key (tenant_id, id),
    constraint tag_terms_digest unique (tenant_id, key_id, kind, digest),
    constraint tag_terms_key foreign key (tenant_id, key_id) references tag_keys (tenant_id, id),
    constraint tag_terms_kind_check check (kind in ('t', 'x', 'e', 'n', 'v'))
);
create index tag_terms_search on tag_terms using gin (key_id, term gin_trgm_ops) with (fastupdate = off) where kind = 't';
select isolate('tag_terms');

-- One row a live file, beside files so that editing a tag does not rewrite the indexes of names; slate, folder, name and
-- path are repeated because results are found and ordered by them.
create table file_tags (
    tenant_id bigint not null,
    file_id   bigint not null,
    slate_id  bigint not null,
    folder_id bigint not null,
    name      text collate "C" not null,
    path      text collate "C" not null,
    hidden    boolean not null default false,
    tags      jsonb not null,
    term_ids  bigint[] not null,
    revision  bigint not null default 1,
    constraint file_tags_pk primary key (tenant_id, folder_id, name) include (file_id),
    constraint file_tags_path unique (tenant_id, slate_id, path) include (file_id),
    constraint file_tags_file foreign key (tenant_id, file_id) references file_ids (tenant_id, id),
    constraint file_tags_folder foreign key (tenant_id, folder_id) references folders (tenant_id, id)
);
create index file_tags_terms on file_tags using gin (slate_id, folder_id, term_ids) with (fastupdate = off);
create index file_tags_values on file_tags using gin (folder_id, tags jsonb_path_ops) with (fastupdate = off);
alter table file_tags alter column folder_id set statistics 1000, alter column term_ids set statistics 1000;
create statistics file_tags_folders on tenant_id, folder_id from file_tags;
select isolate('file_tags');

-- What searches read. `like`, `~` and `&&` are not leakproof, so under a policy they may not be index conditions; these
-- views, owned by the owner of the tables, hold the same rule as a plain condition and keep the indexes in reach.
create view search_files     as select * from files     where tenant_id = app_tenant();
create view search_file_tags as select * from file_tags where tenant_id = app_tenant();
create view search_tag_terms as select * from tag_terms where tenant_id = app_tenant();

select grant_to_app('select, insert on tag_keys, tag_terms');
select grant_to_app('select, insert, update, delete on file_tags');
select grant_to_app('select on search_files, search_file_tags, search_tag_terms');
