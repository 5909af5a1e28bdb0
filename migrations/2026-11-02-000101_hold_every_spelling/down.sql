drop view search_files;

alter table files drop column nfc;
alter table files add column nfc text collate "C" generated always as
    (case when octet_length(path) > char_length(path) then normalize(path, NFC) end) stored;
create unique index files_nfc on files (tenant_id, slate_id, nfc) where nfc is not null;

alter table folders drop column nfc;
alter table folders add column nfc text collate "C" generated always as
    (case when octet_length(path) > char_length(path) then normalize(path, NFC) end) stored;
create unique index folders_nfc on folders (tenant_id, slate_id, nfc) where nfc is not null;

create view search_files as select * from files where tenant_id = app_tenant();
select grant_to_app('select on search_files');
