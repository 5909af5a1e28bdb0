alter table files drop column modified_at;
