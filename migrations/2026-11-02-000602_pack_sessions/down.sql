alter table sessions drop column route;
