alter index files_search reset (fastupdate);
