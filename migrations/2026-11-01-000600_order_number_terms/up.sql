-- Ranges of numbers are answered from the dictionary too: each distinct number of a metatag is there once.
alter table tag_terms add column num numeric generated always as
    (case when kind = 'v' and term not in ('true', 'false') then term::numeric end) stored;
create index tag_terms_num on tag_terms (tenant_id, key_id, num) where num is not null;
create or replace view search_tag_terms as select * from tag_terms where tenant_id = app_tenant();
