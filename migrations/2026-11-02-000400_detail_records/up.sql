-- What a record says of an item beyond the columns: {"n": "<JSON text>"}. Text within JSON, since it is hashed as it is.
alter table provenance add column details json;
