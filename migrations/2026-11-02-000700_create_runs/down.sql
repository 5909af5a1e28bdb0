alter table tenant_settings drop column max_concurrent_runs, drop column max_rounds_per_day, drop column max_tokens_per_day;
drop table usage_days, run_queue, run_answers, runs, session_events;
alter table sessions drop column is_run, drop column event_count;
