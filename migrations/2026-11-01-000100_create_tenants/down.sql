drop function api_key(bigint, bigint);
drop table idempotency_keys, api_keys, tenant_settings, tenants;
drop function isolate(regclass), grant_to_app(text), app_operator(), app_tenant();
