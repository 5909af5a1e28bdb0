-- A file that was hidden when it was deleted stays hidden: its versions outlive the row that said so.
alter table file_ids add column hidden boolean not null default false;
select grant_to_app('update (hidden) on file_ids');
