alter table provenance drop column details;
