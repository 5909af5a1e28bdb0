set local lock_timeout = '10s';

alter table file_tags drop column of_source;
