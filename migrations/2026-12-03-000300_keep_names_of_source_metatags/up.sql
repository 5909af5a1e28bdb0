-- Which metatags of a file its source set (its front matter, or a manifest): a JSON array of their names, null where no source ever
-- said anything. `seed` sets and takes away these alone, and leaves what was set over the API. A column of rows that have
-- row-level security, read and written with them.
--
-- Nothing is rewritten: the lock is held for a moment, and waited for ten seconds at most.
set local lock_timeout = '10s';

alter table file_tags add column of_source jsonb;
