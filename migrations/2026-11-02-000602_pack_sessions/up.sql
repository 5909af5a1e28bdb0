-- The route that a session was opened with: {"route_id", "route_version"}.
alter table sessions add column route json;
