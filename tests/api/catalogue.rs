//! What the database's own catalogue says of isolation: rights, policies, views, names.

use diesel::pg::PgConnection;
use diesel::prelude::*;
use diesel::sql_query;
use diesel::sql_types::Text;
use serde_json::json;

use crate::support::Server;

#[derive(QueryableByName)]
struct Line {
    #[diesel(sql_type = Text)]
    line: String,
}

fn lines(connection: &mut PgConnection, sql: &str) -> Vec<String> {
    let rows: Vec<Line> = sql_query(sql).load(connection).unwrap();
    rows.into_iter().map(|row| row.line).collect()
}

async fn catalogue(check: impl FnOnce(&mut PgConnection) + Send + 'static) {
    let server = Server::start().await;
    tokio::task::spawn_blocking(move || check(&mut server.superuser())).await.unwrap();
}

const OURS: &str = "c.relnamespace = 'public'::regnamespace and c.relname <> '__diesel_schema_migrations'";

#[tokio::test]
async fn every_table_is_isolated_by_exactly_one_policy() {
    catalogue(|connection| {
        let found = lines(
            connection,
            &format!(
                "select concat_ws(' ', c.relname, c.relrowsecurity, c.relforcerowsecurity, count(p.polname), \
                        min(p.polcmd::text), min(pg_get_expr(p.polqual, p.polrelid)), \
                        min(pg_get_expr(p.polwithcheck, p.polrelid))) as line \
                 from pg_class c left join pg_policy p on p.polrelid = c.oid \
                 where c.relkind in ('r', 'p') and {OURS} and c.relname not in ('tenants', 'run_queue', 'key_aliases') \
                 group by c.oid, c.relname, c.relrowsecurity, c.relforcerowsecurity order by 1"
            ),
        );
        assert!(found.len() > 15, "{found:?}");
        for table in found {
            let (_, rest) = table.split_once(' ').unwrap();
            assert_eq!(rest, "t f 1 * (tenant_id = app_tenant()) (tenant_id = app_tenant())", "{table}");
        }
        // What opens a key is seen and set by the operator's transactions alone, each in one tenant.
        let aliases = lines(
            connection,
            "select concat_ws(' ', c.relrowsecurity, p.polcmd, pg_get_expr(p.polqual, p.polrelid), \
                    pg_get_expr(p.polwithcheck, p.polrelid)) as line \
             from pg_policy p join pg_class c on c.oid = p.polrelid where c.oid = 'key_aliases'::regclass",
        );
        let both = "((tenant_id = app_tenant()) AND app_operator())";
        assert_eq!(aliases, [format!("t * {both} {both}")]);
        // The queue of runs is read across tenants, by the operator's transactions; so it holds ids and times alone.
        let queue = lines(
            connection,
            "select concat_ws(' ', attname, format_type(atttypid, null)) as line from pg_attribute \
             where attrelid = 'run_queue'::regclass and attnum > 0 order by attnum",
        );
        let columns = [
            "tenant_id bigint",
            "session_id uuid",
            "next_at timestamp with time zone",
            "lease_owner uuid",
            "lease_until timestamp with time zone",
        ];
        assert_eq!(queue, columns);
        let policies = lines(
            connection,
            "select concat_ws(' ', polcmd, pg_get_expr(polqual, polrelid), pg_get_expr(polwithcheck, polrelid)) as line \
             from pg_policy where polrelid = 'run_queue'::regclass",
        );
        let either = "((tenant_id = app_tenant()) OR app_operator())";
        assert_eq!(policies, [format!("* {either} {either}")]);
    })
    .await;
}

#[tokio::test]
async fn views_see_the_callers_tenant_alone() {
    catalogue(|connection| {
        let views = lines(
            connection,
            &format!(
                "select concat_ws('|', c.relname, coalesce(array_to_string(c.reloptions, ','), ''), \
                        regexp_replace(pg_get_viewdef(c.oid), '\\s+', ' ', 'g')) as line \
                 from pg_class c where c.relkind = 'v' and {OURS} order by 1"
            ),
        );
        assert!(views.iter().any(|view| view.starts_with("search_file_tags|")), "{views:?}");
        for view in views {
            let (name, rest) = view.split_once('|').unwrap();
            let (options, definition) = rest.split_once('|').unwrap();
            match name.strip_prefix("search_") {
                Some(table) => {
                    let only = format!(" FROM {table} WHERE ({table}.tenant_id = app_tenant());");
                    assert!(definition.ends_with(&only), "{view}");
                    assert_eq!(options, "", "{view}: a barrier would keep the indexes out of reach");
                }
                None => assert_eq!(options, "security_invoker=true", "{view}"),
            }
        }
    })
    .await;
}

#[tokio::test]
async fn the_application_role_can_do_no_more_than_it_needs() {
    catalogue(|connection| {
        let roles = lines(
            connection,
            "select concat_ws(' ', case when rolname like 'slatebase_app_%' then 'app' else 'owner' end, rolsuper, \
                    rolbypassrls, rolcreaterole, rolcreatedb, rolcanlogin, rolreplication) as line \
             from pg_roles where rolname in ( \
                 (select relowner::regrole::text from pg_class where oid = 'public.files'::regclass), \
                 (select replace(relowner::regrole::text, '_owner_', '_app_') from pg_class \
                   where oid = 'public.files'::regclass)) order by 1",
        );
        assert_eq!(roles, ["app f f f f f f", "owner f f f f f f"]);
        let owned = lines(
            connection,
            "select c.relname::text as line from pg_class c where c.relowner::regrole::text like 'slatebase_app_%'",
        );
        assert!(owned.is_empty(), "{owned:?}");
        let rights = lines(
            connection,
            &format!(
                "select concat(c.relname, ': ', string_agg(lower(a.privilege_type), ', ' order by a.privilege_type)) \
                        as line \
                 from pg_class c cross join lateral aclexplode(c.relacl) a \
                 where {OURS} and a.grantee::regrole::text like 'slatebase_app_%' group by c.relname order by 1"
            ),
        );
        assert_eq!(
            rights,
            [
                "blobs: insert, select",
                "catalog_versions: insert, select, update",
                "corpora: delete, insert, select, update",
                "file_ids: insert, select",
                "file_tags: delete, insert, select, update",
                "file_versions: insert, select",
                "files: delete, insert, select, update",
                "folders: delete, insert, select, update",
                "idempotency_keys: delete, insert, select, update",
                "api_keys: insert, select",
                "key_aliases: delete, insert, select",
                "mcp_sessions: delete, insert, select, update",
                "passage_roots: delete, insert, select",
                "passages: delete, insert, select, update",
                "provenance: insert, select",
                "provenance_items: select",
                "rounds: delete, insert, select",
                "run_answers: delete, insert, select",
                "run_queue: delete, insert, select, update",
                "runs: delete, insert, select, update",
                "session_events: delete, insert, select",
                "usage_days: insert, select, update",
                "version_contents: select",
                "search_file_tags: select",
                "search_files: select",
                "search_passages: select",
                "search_tag_terms: select",
                "secrets: delete, insert, select, update",
                "session_context: delete, insert, select",
                "session_seals: insert, select",
                "sessions: delete, insert, select, update",
                "slates: insert, select, update",
                "sources: delete, insert, select, update",
                "tag_keys: insert, select",
                "tag_terms: insert, select",
                "tenant_settings: insert, select, update",
                "tenants: insert, select",
            ]
            .iter()
            .map(|line| line.to_string())
            .collect::<std::collections::BTreeSet<_>>()
            .into_iter()
            .collect::<Vec<_>>()
        );
        let everyone = lines(
            connection,
            &format!(
                "select c.relname::text as line from pg_class c cross join lateral aclexplode(c.relacl) a \
                 where {OURS} and a.grantee = 0"
            ),
        );
        assert!(everyone.is_empty(), "granted to everyone: {everyone:?}");
    })
    .await;
}

/// Functions of the owner that believe their caller, and why they may. All others that take anything say whose it is, and
/// refuse what is not the transaction's tenant.
const TRUSTING: [(&str, &str); 3] = [
    (
        "key_of_alias",
        "signing in by a fixed token: it tells of the key that the hash of one names, and of no other",
    ),
    (
        "api_key",
        "signing in: before the key is known there is no tenant; it gives the hash of a secret to compare with",
    ),
    ("erase_tenant", "erasing: the operator's transactions alone, which belong to no tenant"),
];

#[tokio::test]
async fn functions_of_the_owner_are_closed_to_everyone_else() {
    catalogue(|connection| {
        // By this path nothing of the caller's is found in place of what a function means.
        let definers = lines(
            connection,
            "select concat_ws('|', p.proname, array_to_string(p.proconfig, ';'), \
                    p.proowner = (select relowner from pg_class where oid = 'public.files'::regclass), \
                    has_function_privilege('public', p.oid, 'execute'), \
                    p.pronargs > 0 and p.prosrc !~ '\\mbegin\\s+if of_tenant is distinct from public\\.app_tenant\\(\\) then\\s+raise exception') \
                    as line \
             from pg_proc p where p.pronamespace = 'public'::regnamespace and p.prosecdef order by 1",
        );
        assert!(definers.len() >= 7, "{definers:?}");
        for function in definers {
            let (name, rest) = function.split_once('|').unwrap();
            let trusts = if TRUSTING.iter().any(|(trusting, _)| *trusting == name) { "t" } else { "f" };
            assert_eq!(rest, format!("search_path=pg_catalog, pg_temp|t|f|{trusts}"), "{name}");
        }
        let elsewhere = lines(
            connection,
            "select p.oid::regprocedure::text as line from pg_proc p where p.prosecdef \
             and p.pronamespace <> 'public'::regnamespace",
        );
        assert!(elsewhere.is_empty(), "{elsewhere:?}");
        let open = lines(
            connection,
            "select p.proname::text as line from pg_proc p where p.pronamespace = 'public'::regnamespace \
             and p.proname in ('isolate', 'grant_to_app') and has_function_privilege('public', p.oid, 'execute')",
        );
        assert!(open.is_empty(), "{open:?}");
    })
    .await;
}

/// Every policy and search view asks these; called, and not a part of the plan, they would cost a call for each row.
#[tokio::test]
async fn what_policies_ask_is_bound_and_becomes_a_part_of_plans() {
    catalogue(|connection| {
        let plan = {
            #[derive(QueryableByName)]
            struct Plan {
                #[diesel(sql_type = Text, column_name = "QUERY PLAN")]
                line: String,
            }
            let sql = "explain (verbose, costs off) select id from search_files union all \
                       select tenant_id from run_queue where app_operator()";
            let plan: Vec<Plan> = sql_query(sql).load(connection).unwrap();
            plan.into_iter().map(|row| row.line).collect::<Vec<_>>().join("\n")
        };
        assert!(
            plan.contains("NULLIF(current_setting('app.tenant_id'") && !plan.contains("app_tenant"),
            "{plan}"
        );
        assert!(
            plan.contains("COALESCE(current_setting('app.operator'") && !plan.contains("app_operator"),
            "{plan}"
        );
        let looked_up = lines(
            connection,
            "select proname::text as line from pg_proc where pronamespace = 'public'::regnamespace \
             and proname in ('app_tenant', 'app_operator') and prosqlbody is null",
        );
        assert!(looked_up.is_empty(), "{looked_up:?}");
    })
    .await;
}

#[tokio::test]
async fn the_schema_can_be_distributed() {
    catalogue(|connection| {
        let triggers = lines(connection, "select tgname::text as line from pg_trigger where not tgisinternal");
        assert!(triggers.is_empty(), "{triggers:?}");
        let undistributed = lines(
            connection,
            &format!(
                "select i.indexrelid::regclass::text as line from pg_index i join pg_class c on c.oid = i.indrelid \
                 where i.indisunique and {OURS} and c.relname not in ('tenants', 'key_aliases') and not exists ( \
                     select from pg_attribute a where a.attrelid = i.indrelid and a.attname = 'tenant_id' \
                        and a.attnum = any(i.indkey::smallint[]))"
            ),
        );
        assert!(undistributed.is_empty(), "unique without tenant_id: {undistributed:?}");
        let keys = lines(
            connection,
            "select k.conname::text as line from pg_constraint k where k.contype = 'f' \
             and (k.condeferrable or k.confupdtype <> 'a' or k.confdeltype <> 'a')",
        );
        assert!(keys.is_empty(), "{keys:?}");
        let names = lines(
            connection,
            &format!(
                "select k.conname::text as line from pg_constraint k join pg_class c on c.oid = k.conrelid where {OURS} \
                 and (length(k.conname) > 30 or (select count(*) from pg_constraint o join pg_class oc on oc.oid = o.conrelid \
                        where o.conname = k.conname and oc.relnamespace = 'public'::regnamespace) > 1)"
            ),
        );
        assert!(names.is_empty(), "long or shared names: {names:?}");
    })
    .await;
}

/// Rows of every table, then a look at each: without a tenant, as another tenant, and as the one that they belong to.
#[tokio::test]
async fn another_tenant_and_no_tenant_see_nothing() {
    let server = Server::start().await;
    let (acme, other) = (server.tenant("acme").await, server.tenant("other").await);
    server
        .fill(
            &acme,
            "K",
            json!({"d/a.md": {"content": "a", "metatags": {"k": ["x"], "n": 3}}, "d/e/b.md": "b".repeat(4000)}),
        )
        .await;
    let declaration = json!({"to": {"slate": "K", "folder": "d"}, "as": "Docs", "maxRounds": 2,
        "requestMatch": {"type": "object", "properties": {"files": {"type": "array"}}}});
    let opened = acme
        .post("/v1/sessions")
        .header("Idempotency-Key", "one")
        .json(json!({"retrieve": declaration}))
        .await
        .ok(201);
    let session = opened["session_id"].as_str().unwrap().to_owned();
    let rounds = format!("/v1/sessions/{session}/rounds");
    acme.post(&rounds).json(json!({"output": {"files": ["a.md"]}})).await.expect(200);
    acme.post(&rounds).json(json!({"output": "the answer"})).await.expect(200);

    acme.put("/v1/catalog/corpora/c")
        .json(json!({"url": "slate:K/d", "status": "published"}))
        .await
        .expect(201);
    acme.put("/v1/catalog/routes/r/1").json(json!({})).await.expect(201);
    acme.put("/v1/sources/apis/a").json(json!({"base_url": "https://a.example"})).await.expect(201);
    acme.put("/v1/secrets/s").json(json!({"value": "x"})).await.expect(201);

    let waiting = acme.post("/v1/sessions").json(json!({"retrieve": declaration})).await.ok(201);
    let waiting = waiting["session_id"].as_str().unwrap().to_owned();
    let model = json!({"model": {"base_url": "https://llm.example.com/v1", "name": "m"}});
    acme.post(&format!("/v1/sessions/{waiting}/run")).json(model).await.expect(202);

    let (acme, other) = (server.local(&acme).tenant.0, server.local(&other).tenant.0);
    let db = server.app.db.clone();
    tokio::task::spawn_blocking(move || {
        let mut superuser = server.superuser();
        // No server of this test runs anything.
        sql_query(format!(
            "with answer as (insert into run_answers select tenant_id, session_id, 1, '\"x\"', 'content', 1, 1, now() from runs) \
             , client as (insert into mcp_sessions select tenant_id, session_id, 1, null, '{{}}', now(), now() from runs) \
             , alias as (insert into key_aliases select tenant_id, id, sha256('t'), now() from api_keys \
                 where tenant_id = {acme} limit 1) \
             insert into usage_days (tenant_id, day) values ({acme}, '2026-11-02')"
        ))
        .execute(&mut superuser)
        .unwrap();
        let relations = lines(
            &mut superuser,
            &format!(
                "select c.relname::text as line from pg_class c join pg_attribute a on a.attrelid = c.oid \
                 where c.relkind in ('r', 'v') and {OURS} and a.attname = 'tenant_id' order by 1"
            ),
        );
        assert!(relations.len() > 20, "{relations:?}");
        for relation in relations {
            let count = |sql: &str| -> i64 {
                #[derive(QueryableByName)]
                struct Count {
                    #[diesel(sql_type = diesel::sql_types::BigInt)]
                    count: i64,
                }
                let look = |tx: &mut slatebase::db::Tx| {
                    diesel::connection::SimpleConnection::batch_execute(tx.conn(), sql)?;
                    let count: Count =
                        sql_query(format!("select count(*) from {relation}")).get_result(tx.conn())?;
                    Ok(count.count)
                };
                db.tenant_blocking(slatebase::ctx::TenantId(acme), look).unwrap()
            };
            // Fixed tokens are the operator's alone.
            if relation == "key_aliases" {
                assert_eq!(count("select"), 0, "{relation} shows a token to its tenant");
            }
            let own = count(if relation == "key_aliases" { "set local app.operator = 'on'" } else { "select" });
            assert!(own > 0, "{relation} has no row to hide: use it in this test");
            assert_eq!(count("set local app.tenant_id = ''"), 0, "{relation} without a tenant");
            let others = count(&format!("set local app.tenant_id = '{other}'"));
            assert!(others <= 1, "{relation} as another tenant: {others}");
            let of_acme = format!("select count(*)::text as line from {relation} where tenant_id = {acme}");
            let leaked =
                |tx: &mut slatebase::db::Tx| Ok(sql_query(&of_acme).get_result::<Line>(tx.conn())?.line);
            let leaked = db.tenant_blocking(slatebase::ctx::TenantId(other), leaked).unwrap();
            assert_eq!(leaked, "0", "{relation} shows acme's rows to another tenant");
        }
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_powerful_login_is_refused_by_name_of_its_right() {
    use slatebase::db::roles::refuse_powerful;
    catalogue(|connection| {
        let refusal = refuse_powerful(connection).unwrap_err().to_string();
        assert!(refusal.contains("superuser") && refusal.contains("SLATEBASE_DATABASE_URL"), "{refusal}");
    })
    .await;
}
