//! Functions of the schema's owner, attacked by whoever has the application role: with objects of their own session, with its
//! search path, with its role. None of it runs as the owner.

use diesel::connection::SimpleConnection;
use diesel::pg::PgConnection;
use diesel::prelude::*;
use diesel::sql_query;
use diesel::sql_types::Text;
use serde_json::json;
use slatebase::db::roles::refuse_powerful;

use crate::support::Server;

/// Every function of the owner, as a call that passes its checks; `$` is the tenant. The last one leaves nothing to attack.
const CALLS: [(&str, &str); 9] = [
    ("analyze_passages", "public.analyze_passages()"),
    ("api_key", "public.api_key($, 1)"),
    ("key_of_alias", "public.key_of_alias('\\x00')"),
    ("drop_terms", "public.drop_terms($, array(select i from pg_catalog.generate_series(1, 100) i))"),
    // An error where there was nothing to do: it comes before the other that analyzes.
    ("refresh_statistics", "1 / public.refresh_statistics()"),
    ("freshen_statistics", "public.freshen_statistics()"),
    ("move_contents", "public.move_contents($, 0)"),
    ("purge_versions", "public.purge_versions($, array[1, 2, 3], array[1, 1, 1])"),
    ("erase_tenant", "public.erase_tenant($)"),
];

/// As functions of the owner were, to see that an attack would be seen.
const CARELESS: &str = "
    create function careless_relation() returns void language plpgsql security definer
        set search_path = pg_catalog, public as $$
    begin perform s.relid from pg_stat_user_tables s; end $$;
    create function careless_type() returns void language plpgsql security definer set search_path = pg_catalog, public as $$
    begin perform 'public.files'::regclass; end $$";

/// Makes work for the functions that analyze what has grown or changed.
const GROW: &str = "
    update pg_class set relpages = 0 where oid in ('files'::regclass, 'file_versions'::regclass);
    update file_ids set created_at = created_at;
    select pg_stat_force_next_flush()";

/// Objects of the session, named as everything that a function of the owner could mean: relations, types, functions and
/// operators of Postgres's and ours. Each of them is as the one it stands for, and `evil` besides.
const OBJECTS: &str = r#"
create function pg_temp.evil() returns boolean language plpgsql volatile as $$
begin
    if current_user <> session_user then raise exception 'evil as another'; end if;
    return true;
end $$;
do $$
declare
    of record;
begin
    for of in
        select c.relname as name, n.nspname as schema,
               pg_catalog.string_agg(pg_catalog.format(case
                   when a.atttypid = any('{anyarray,pg_catalog.pg_statistic[]}'::pg_catalog.regtype[])
                   then 'x.%1$I::pg_catalog.text as %1$I' else 'x.%1$I' end, a.attname), ', ' order by a.attnum) as columns
        from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
             join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
        where c.relkind in ('r', 'v') and n.nspname in ('pg_catalog', 'public') group by c.oid, c.relname, n.nspname
    loop
        execute pg_catalog.format(
            'create view pg_temp.%1$I as select %3$s from (select pg_temp.evil() as ok offset 0) e left join %2$I.%1$I x on e.ok',
            of.name, of.schema, of.columns);
    end loop;
    for of in
        select t.typname as name from pg_catalog.pg_type t join pg_catalog.pg_namespace n on n.oid = t.typnamespace
        where n.nspname = 'pg_catalog' and t.typtype = 'b' and t.typelem = 0
    loop
        execute pg_catalog.format('create domain pg_temp.%1$I as pg_catalog.%1$I check (pg_temp.evil())', of.name);
    end loop;
end $$;
-- Functions and operators are never looked for here, whatever the search path; that this stays so is seen, too.
do $$
declare
    of record;
    made integer := 0;
begin
    for of in
        select distinct p.proname as name, pg_catalog.pg_get_function_identity_arguments(p.oid) as arguments,
               pg_catalog.pg_get_function_result(p.oid) as result
        from pg_catalog.pg_proc p
        where p.prokind = 'f' and p.pronamespace in ('pg_catalog'::pg_catalog.regnamespace, 'public'::pg_catalog.regnamespace)
          and exists (select from pg_catalog.pg_proc d where d.pronamespace = 'public'::pg_catalog.regnamespace
                and d.prosecdef and d.prosrc ~ ('\m' || p.proname || '\('))
    loop
        begin
            execute pg_catalog.format('create function pg_temp.%I(%s) returns %s language plpgsql as '
                '$f$ begin perform pg_temp.evil(); return; end $f$', of.name, of.arguments, of.result);
            made := made + 1;
        exception when others then
            begin
                execute pg_catalog.format('create function pg_temp.%I(%s) returns %s language plpgsql as '
                    '$f$ begin perform pg_temp.evil(); return null; end $f$', of.name, of.arguments, of.result);
                made := made + 1;
            exception when others then null; -- of pseudo-types that plpgsql does not take
            end;
        end;
    end loop;
    if made < 5 then raise exception 'only % functions to mislead by', made; end if;
    for of in
        select o.oprname as name, o.oprleft::pg_catalog.regtype as l, o.oprright::pg_catalog.regtype as r
        from pg_catalog.pg_operator o
        where o.oprname in ('=', '<>', '>', '<', '/', '*', '+', '&&') and o.oprnamespace = 'pg_catalog'::pg_catalog.regnamespace
          and o.oprleft = any('{int8,int4,oid,name,text,char,bytea,regclass}'::pg_catalog.regtype[])
          and o.oprright = any('{int8,int4,oid,name,text,char,bytea,regclass}'::pg_catalog.regtype[])
    loop
        execute pg_catalog.format('create or replace function pg_temp.misleading(%s, %s) returns boolean language plpgsql as '
            '$f$ begin return pg_temp.evil(); end $f$', of.l, of.r);
        execute pg_catalog.format('create operator pg_temp.%s (leftarg = %s, rightarg = %s, function = pg_temp.misleading)',
            of.name, of.l, of.r);
    end loop;
end $$;
-- A value of a type of one's own becomes what the function takes by a cast of one's own.
create type pg_temp.disguise as (n bigint);
create function pg_temp.undisguise(pg_temp.disguise) returns bigint language plpgsql as
    $$ begin perform pg_temp.evil(); return ($1).n; end $$;
create cast (pg_temp.disguise as bigint) with function pg_temp.undisguise(pg_temp.disguise) as implicit;
"#;

/// A server whose tenant has something that each function touches, and the tenant's number.
async fn filled() -> (Server, i64) {
    let (server, caller) = Server::with_slate().await;
    server
        .fill(&caller, "K", json!({"d/a.md": {"content": "a", "metatags": {"k": ["x"]}}, "d/b.md": "b"}))
        .await;
    caller.delete("/v1/slates/K/files/d/b.md").await.expect(204);
    let tenant = server.local(&caller).tenant.0;
    (server, tenant)
}

/// A session of the service's own login.
#[allow(clippy::disallowed_methods, reason = "as an attacker would who has the login")]
fn session(server: &Server) -> PgConnection {
    PgConnection::establish(&server.service_url()).unwrap()
}

fn refusal(connection: &mut PgConnection, sql: &str) -> String {
    connection.batch_execute(sql).expect_err(sql).to_string()
}

#[derive(QueryableByName)]
struct Word {
    #[diesel(sql_type = Text)]
    word: String,
}

fn words(connection: &mut PgConnection, sql: &str) -> Vec<String> {
    let rows: Vec<Word> = sql_query(sql).load(connection).unwrap();
    rows.into_iter().map(|row| row.word).collect()
}

#[tokio::test]
async fn the_application_role_makes_nothing() {
    let (server, _) = filled().await;
    tokio::task::spawn_blocking(move || {
        let mut session = session(&server);
        for attempt in [
            "create temp view pg_stat_user_tables as select 1",
            "create temp table files (id bigint)",
            "select 1 as id into temp files",
            "create function pg_temp.evil() returns boolean language sql as 'select true'",
            "create domain pg_temp.regclass as text",
            "create function public.evil() returns boolean language sql as 'select true'",
            "create schema evil",
            "create trigger evil before delete on files for each row execute function pg_catalog.tsvector_update_trigger()",
            "create rule evil as on delete to tenants do also select 1",
            "alter function refresh_statistics() reset search_path",
            "grant temporary on database current to current_user",
        ] {
            let told = refusal(&mut session, attempt);
            let expected = ["permission denied", "must be owner", "syntax error", "does not exist"];
            assert!(expected.iter().any(|part| told.contains(part)), "{attempt}: {told}");
        }
        // Nor does it become who could.
        let others = words(
            &mut session,
            // The login of these tests serves the databases of other versions, too.
            "select rolname::text as word from pg_roles where rolname <> session_user and rolname !~ '^slatebase_app_'",
        );
        assert!(others.iter().any(|role| role.starts_with("slatebase_owner_")), "{others:?}");
        for role in others {
            for attempt in [format!("set role {role}"), format!("set session authorization {role}")] {
                let told = refusal(&mut session, &attempt);
                assert!(told.contains("permission denied"), "{attempt}: {told}");
            }
        }
    })
    .await
    .unwrap();
}

/// Even where somebody granted it temporary objects.
#[tokio::test]
async fn what_a_session_makes_for_itself_never_runs_as_the_owner() {
    let (server, tenant) = filled().await;
    server.copies("d/a.md", 4000);
    tokio::task::spawn_blocking(move || {
        let mut admin = server.superuser();
        // Nobody else is to do the work that is made for the functions.
        for table in ["file_ids", "file_versions", "files"] {
            admin.batch_execute(&format!("alter table {table} set (autovacuum_enabled = false)")).unwrap();
        }
        let functions = "select proname::text as word from pg_proc \
                         where pronamespace = 'public'::regnamespace and prosecdef order by 1";
        let mut called: Vec<_> = CALLS.iter().map(|(name, _)| *name).collect();
        called.sort_unstable();
        assert_eq!(words(&mut admin, functions), called, "each has a call that it is attacked by");
        let database = words(&mut admin, "select current_database()::text as word").remove(0);
        let login = words(&mut session(&server), "select session_user::text as word").remove(0);
        admin.batch_execute(&format!("grant temporary on database {database} to {login}; {CARELESS}")).unwrap();
        for path in ["\"$user\", public", "pg_temp, public, pg_catalog", "public, pg_catalog, pg_temp"] {
            let mut session = session(&server);
            session.batch_execute(OBJECTS).unwrap();
            let settings = format!(
                "begin; set local search_path = {path}; set local app.operator = 'on'; set local app.tenant_id = '{tenant}';"
            );
            for careless in ["careless_relation", "careless_type"] {
                let told = refusal(&mut session, &format!("{settings} select public.{careless}()"));
                assert!(told.contains("evil as another"), "an attack is not seen: {told}");
                session.batch_execute("rollback").unwrap();
            }
            admin.batch_execute(GROW).unwrap();
            for (name, call) in CALLS {
                let disguised = format!("row({tenant})::pg_temp.disguise");
                let mut calls = vec![call.replace('$', &tenant.to_string()), call.replace('$', &disguised)];
                calls.dedup();
                for call in calls {
                    let done = session.batch_execute(&format!("{settings} select {call}"));
                    assert!(done.is_ok(), "{name} by {path}: {done:?}");
                    session.batch_execute("rollback").unwrap();
                }
            }
            let analyzed = "select relname::text as word from pg_class \
                            where oid in ('files'::regclass, 'file_versions'::regclass) and relpages > 0 order by 1";
            assert_eq!(words(&mut admin, analyzed), ["file_versions", "files"]);
        }
    })
    .await
    .unwrap();
}

/// What is said of another tenant to a function of the owner is not believed.
#[tokio::test]
async fn functions_of_the_owner_serve_the_transactions_tenant() {
    let (server, tenant) = filled().await;
    tokio::task::spawn_blocking(move || {
        let mut session = session(&server);
        for own in ["set local app.tenant_id = '999999'", "set local app.tenant_id = ''", "select 1"] {
            for (name, call) in CALLS.iter().filter(|(_, call)| call.contains('$')) {
                if *name == "api_key" {
                    continue;
                }
                let call = call.replace('$', &tenant.to_string());
                let told = refusal(&mut session, &format!("begin; {own}; select {call}"));
                assert!(told.contains("own tenant") || told.contains("only the operator"), "{name}: {told}");
                session.batch_execute("rollback").unwrap();
            }
        }
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_start_is_refused_where_an_attack_would_have_a_way() {
    let (server, _) = filled().await;
    tokio::task::spawn_blocking(move || {
        let mut admin = server.superuser();
        let database = words(&mut admin, "select current_database()::text as word").remove(0);
        let mut session = session(&server);
        refuse_powerful(&mut session).unwrap();

        admin.batch_execute(&format!("grant temporary on database {database} to public")).unwrap();
        let told = refuse_powerful(&mut session).unwrap_err().to_string();
        let what = format!("revoke temporary on database {database} from public");
        assert!(told.contains("slatebase migrate") && told.contains(&what), "{told}");
        admin.batch_execute(&what).unwrap();

        for path in ["pg_catalog, public", "pg_temp, pg_catalog", "pg_temp, pg_catalog, pg_temp"] {
            admin
                .batch_execute(&format!(
                    "alter function drop_terms(bigint, bigint[]) set search_path = {path}"
                ))
                .unwrap();
            let told = refuse_powerful(&mut session).unwrap_err().to_string();
            assert!(told.contains("drop_terms(bigint,bigint[])") && !told.contains("api_key"), "{told}");
        }
        admin.batch_execute("alter function drop_terms(bigint, bigint[]) reset search_path").unwrap();
        refuse_powerful(&mut session).unwrap_err();
        admin
            .batch_execute(
                "alter function drop_terms(bigint, bigint[]) set search_path = pg_catalog, public, pg_temp",
            )
            .unwrap();
        refuse_powerful(&mut session).unwrap();
    })
    .await
    .unwrap();
}
