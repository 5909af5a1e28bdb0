drop index files_hidden;
drop index files_slate_name;
create index files_slate_name on files (tenant_id, slate_id, name);
insert into blobs (tenant_id, sha256, data)
    select distinct on (tenant_id, sha256) tenant_id, sha256, data from files where data is not null order by tenant_id, sha256
    on conflict do nothing;
drop function move_contents(bigint, bigint);
drop index files_to_move;
drop view version_contents;
alter table file_versions add constraint versions_blob foreign key (tenant_id, blob) references blobs (tenant_id, sha256);
alter table files drop constraint files_data_check;
alter table files reset (toast_tuple_target);
alter table files drop column data;
