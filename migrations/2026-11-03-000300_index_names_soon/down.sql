alter index files_search reset (gin_pending_list_limit);
