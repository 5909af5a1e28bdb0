drop function purge_versions(bigint, bigint[], bigint[]);
drop table files, file_versions, blobs, file_ids, folders, slates;
