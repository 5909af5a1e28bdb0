drop function refresh_statistics();
drop function drop_terms(bigint, bigint[]);
