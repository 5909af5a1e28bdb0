drop view search_tag_terms, search_file_tags, search_files;
drop table file_tags, tag_terms, tag_keys;
