drop function erase_tenant(bigint);
drop view provenance_items;
drop table session_seals, session_context, rounds, sessions, provenance;
