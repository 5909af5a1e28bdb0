drop view search_tag_terms;
alter table tag_terms drop column num;
create view search_tag_terms as select * from tag_terms where tenant_id = app_tenant();
