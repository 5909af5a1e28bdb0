drop function analyze_passages();
drop view search_passages;
drop table passages, passage_roots;
alter table corpora drop column collection;
alter table slates drop column language;
