alter table file_ids drop column hidden;
