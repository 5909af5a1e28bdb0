drop table sources;
