#!/bin/sh
# Run once, when the cluster is made: the login that migrates, and the database that it owns. It is no superuser; it may make
# roles, since the schema's owner, the application role and the login that serves are its to make.
set -eu
psql --set=ON_ERROR_STOP=1 --set=password="$SLATEBASE_MIGRATE_PASSWORD" --username="$POSTGRES_USER" --dbname=postgres <<'SQL'
create role slatebase_migrate login createrole password :'password';
create database slatebase owner slatebase_migrate;
SQL
