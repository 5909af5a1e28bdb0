-- MCP sessions: whose they are, so that every server knows, and what they were opened with, so that any may take them up.
create table mcp_sessions (
    tenant_id  bigint not null constraint mcp_sessions_tenant references tenants (id),
    id         uuid not null,
    key_id     bigint not null,
    -- the session whose loop it is at; null at `/mcp` itself
    session_id uuid,
    -- what the client said of itself; null until it is greeted
    initialize json,
    created_at timestamptz not null,
    expires_at timestamptz not null,
    constraint mcp_sessions_pk primary key (tenant_id, id)
);
create index mcp_sessions_expiry on mcp_sessions (tenant_id, expires_at);
select isolate('mcp_sessions');
select grant_to_app('select, insert, update, delete on mcp_sessions');
