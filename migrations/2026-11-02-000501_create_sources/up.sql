-- APIs and databases that a tenant's admin registered for `retrieve`. A secret is named here, and never held.
create table sources (
    tenant_id  bigint not null constraint sources_tenant references tenants (id),
    kind       text not null,
    name       text collate "C" not null,
    document   json not null,
    revision   bigint not null default 1,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    constraint sources_pk primary key (tenant_id, kind, name),
    constraint sources_kind_check check (kind in ('api', 'database'))
);
select isolate('sources');
select grant_to_app('select, insert, update, delete on sources');
