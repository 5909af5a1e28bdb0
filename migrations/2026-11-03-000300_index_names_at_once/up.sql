-- What waits to be put into the index is read by every search by pattern: up to 500 buffers, where the index costs 130. Writing it
-- at once costs a load a tenth of its speed at most.
alter index files_search set (fastupdate = off);
select gin_clean_pending_list('files_search');
