-- What waits to be put into the index is read by every search by pattern: up to 500 pages of it, where the index costs 130
-- buffers. 32 pages are enough for loads to keep their speed.
alter index files_search set (gin_pending_list_limit = 256);
select gin_clean_pending_list('files_search');
