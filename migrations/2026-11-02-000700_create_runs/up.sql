-- Loops that the service runs itself, what can be watched of a session, and what a tenant spends in a day.

-- is_run: the service makes the session's calls, so a client takes no round of it. Events are counted in the row, whose
-- lock gives them their order.
alter table sessions add column is_run boolean not null default false;
alter table sessions add column event_count bigint not null default 0;

create table session_events (
    tenant_id  bigint not null,
    session_id uuid not null,
    number     bigint not null,
    kind       text not null,
    data       json not null,
    created_at timestamptz not null,
    constraint events_pk primary key (tenant_id, session_id, number),
    constraint events_session foreign key (tenant_id, session_id) references sessions (tenant_id, id)
);
select isolate('session_events');

create table runs (
    tenant_id  bigint not null,
    session_id uuid not null,
    -- the key that asked for it, with whose rights it reads for as long as that key is live; 0 is the command line
    key_id     bigint not null,
    model      json not null,
    -- calls that failed since the last one that did not, and what was wrong with the last of them
    attempts   integer not null default 0,
    trouble    json,
    created_at timestamptz not null,
    constraint runs_pk primary key (tenant_id, session_id),
    constraint runs_session foreign key (tenant_id, session_id) references sessions (tenant_id, id)
);
select isolate('runs');

-- Every answer that was received, before anything is done about it.
create table run_answers (
    tenant_id         bigint not null,
    session_id        uuid not null,
    round             integer not null,
    output            json not null,
    form              text not null,
    -- as reported, null where nothing was
    prompt_tokens     bigint,
    completion_tokens bigint,
    received_at       timestamptz not null,
    constraint run_answers_pk primary key (tenant_id, session_id, round),
    constraint run_answers_run foreign key (tenant_id, session_id) references runs (tenant_id, session_id),
    constraint run_answers_form_check check (form in ('content', 'tool_call'))
);
select isolate('run_answers');

-- What is to be done, by whichever server comes first. It holds ids and times and nothing of a tenant's, so the operator's
-- transactions may read it across tenants; it refers to no table that a distributed database would shard.
create table run_queue (
    tenant_id   bigint not null constraint queue_tenant references tenants (id),
    session_id  uuid not null,
    next_at     timestamptz not null,
    lease_owner uuid,
    lease_until timestamptz,
    constraint queue_pk primary key (tenant_id, session_id),
    constraint queue_lease_check check ((lease_owner is null) = (lease_until is null))
);
create index queue_due on run_queue (next_at);
alter table run_queue enable row level security;
create policy tenant on run_queue using (tenant_id = app_tenant() or app_operator())
    with check (tenant_id = app_tenant() or app_operator());

create table usage_days (
    tenant_id         bigint not null constraint usage_tenant references tenants (id),
    -- of UTC
    day               date not null,
    rounds            bigint not null default 0,
    prompt_tokens     bigint not null default 0,
    completion_tokens bigint not null default 0,
    constraint usage_days_pk primary key (tenant_id, day)
);
select isolate('usage_days');

-- Null is no limit.
alter table tenant_settings
    add column max_concurrent_runs integer constraint settings_runs_check check (max_concurrent_runs >= 0),
    add column max_rounds_per_day bigint constraint settings_rounds_check check (max_rounds_per_day >= 0),
    add column max_tokens_per_day bigint constraint settings_tokens_check check (max_tokens_per_day >= 0);

select grant_to_app('select, insert, delete on session_events, run_answers');
select grant_to_app('select, insert, update, delete on runs, run_queue');
select grant_to_app('select, insert, update on usage_days');
