drop function key_of_alias(bytea);
drop table key_aliases;
