//! What the searches read, as the application role under row-level security: 200,000 files in one folder, and the
//! statements that are really sent. Buffers are what is asserted; times depend on the machine.

use std::collections::HashMap;

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::sql_types::Text;
use serde_json::{Value, json};
use slatebase::ctx::Ctx;
use slatebase::db::Tx;
use slatebase::error::Result;
use slatebase::folders;
use slatebase::path::FolderPath;
use slatebase::retrieval::heads::Contents;
use slatebase::retrieval::modes::{Arm, files, metatag};
use slatebase::retrieval::ops::scope;
use slatebase::retrieval::request::{MetatagTest, Request};
use slatebase::retrieval::sql::Sql;
use slatebase::retrieval::{Scope, store, union};

use crate::support::{Caller, Server};

#[derive(QueryableByName)]
struct Definition {
    #[diesel(sql_type = Text)]
    name: String,
    #[diesel(sql_type = Text)]
    definition: String,
}

/// Runs `fill` with no trigger and no GIN index in its way, and makes the indexes after it.
fn in_bulk(admin: &mut PgConnection, fill: &str) {
    let indexes: Vec<Definition> = diesel::sql_query(
        "select indexrelid::regclass::text as name, pg_get_indexdef(indexrelid) as definition \
         from pg_index i join pg_class c on c.oid = i.indexrelid join pg_am a on a.oid = c.relam where a.amname = 'gin' \
           and c.relnamespace = 'public'::regnamespace",
    )
    .load(admin)
    .unwrap();
    admin.batch_execute("set session_replication_role = replica").unwrap();
    indexes.iter().for_each(|index| admin.batch_execute(&format!("drop index {}", index.name)).unwrap());
    admin.batch_execute(fill).unwrap();
    indexes.iter().for_each(|index| admin.batch_execute(&index.definition).unwrap());
    admin.batch_execute("vacuum analyze").unwrap();
}

/// `big` holds 200,000 files; `small/…` are 200 folders of 50. Of `kind` there are 12 values, one file in 4 has `common ground`;
/// 100 files in `big` have `quetzal`, 4,000 have `medium`; `title` is another in every fourth file.
const FILL: &str = "
    create table g as
      select i, o.id as folder_id, o.slate_id, o.tenant_id, o.path as folder,
             (case i % 10 when 0 then 'report-' when 1 then 'note-' else 'doc-' end) || lpad(((i * 7919) % 1000003)::text, 7, '0')
                 || case when i % 100 = 7 then '.csv' else '.md' end as name,
             case when i % 4 = 0 then 'common ground' else 'sort ' || i % 11 end as kind,
             'Title ' || md5((i / 4)::text) as title,
             case when i % 2000 = 1 then 'quetzal' when i % 50 = 5 then 'medium' end as label
      from generate_series(1, 210000::bigint) i
      join folders o on o.path = case when i <= 200000 then 'big' else 'small/' || (i % 200) end;
    insert into file_ids overriding system value select tenant_id, i + 1000, slate_id, now(), null from g;
    insert into file_versions (tenant_id, slate_id, path, version, file_id, sha256, size, media_type, is_text, created_at)
      select tenant_id, slate_id, folder || '/' || name, 1, i + 1000, sha256('x'), 1, 'text/markdown', true, now() from g;
    insert into files (tenant_id, id, slate_id, folder_id, name, path, size, version, sha256, media_type, is_text, data, modified_at,
                       created_at, updated_at)
      select tenant_id, i + 1000, slate_id, folder_id, name, folder || '/' || name, 1, 1, sha256('x'), 'text/markdown', true,
             'x', now(), now(), now() from g;
    insert into tag_keys (tenant_id, name)
      select t.id, k from tenants t, unnest(array['kind', 'title', 'label']) k;
    insert into tag_terms (tenant_id, key_id, kind, term, digest)
      select k.tenant_id, k.id, v.kind::\"char\", v.term, substr(sha256(convert_to(v.term, 'UTF8')), 1, 16)
      from (select distinct 'kind' as key, 't' as kind, kind as term from g union all select distinct 'title', 't', title from g
            union all select distinct 'label', 't', label from g where label is not null
            union all select k, x, '' from unnest(array['kind', 'title', 'label']) k, unnest(array['x', 'e']) x) v
      join tag_keys k on k.name = v.key;
    analyze tag_terms;
    insert into file_tags (tenant_id, file_id, slate_id, folder_id, name, path, tags, term_ids)
      select g.tenant_id, i + 1000, slate_id, folder_id, g.name, folder || '/' || g.name,
             jsonb_strip_nulls(jsonb_build_object('kind', g.kind, 'title', title, 'label', label)),
             array_remove(array[k.id, t.id, l.id], null) || a.ids || case when label is null then '{}' else b.ids end
      from g
      join tag_terms k on k.kind = 't' and k.term = g.kind
      join tag_terms t on t.kind = 't' and t.term = g.title
      left join tag_terms l on l.kind = 't' and l.term = g.label
      cross join (select array_agg(x.id) as ids from tag_terms x join tag_keys n on n.id = x.key_id
                  where x.kind in ('x', 'e') and n.name in ('kind', 'title')) a
      cross join (select array_agg(x.id) as ids from tag_terms x join tag_keys n on n.id = x.key_id
                  where x.kind in ('x', 'e') and n.name = 'label') b;
    drop table g;
";

async fn filled() -> (Server, Caller) {
    let server = Server::start().await;
    let caller = server.tenant("acme").await;
    let folders: serde_json::Map<_, _> = (0..200)
        .map(|i| (format!("small/{i}/x"), json!("x")))
        .chain([("big/x".to_owned(), json!("x"))])
        .collect();
    server.fill(&caller, "K", folders.into()).await;
    let mut admin = server.superuser();
    tokio::task::spawn_blocking(move || in_bulk(&mut admin, FILL)).await.unwrap();
    (server, caller)
}

/// Buffers that a statement reads, and the rows that it gives.
fn run(tx: &mut Tx, sql: &Sql) -> Result<(i64, i64)> {
    Ok(read(&store::explain(tx, sql)?))
}

/// The buffers and the rows of a plan that was run.
fn read(explained: &Value) -> (i64, i64) {
    let plan = &explained[0]["Plan"];
    let number = |name: &str| plan[name].as_f64().map_or(0, |n| n as i64);
    (number("Shared Hit Blocks") + number("Shared Read Blocks"), number("Actual Rows"))
}

/// The same for all statements of a search for the first `limit` files.
fn search(tx: &mut Tx, scope: &Scope, request: &Request, limit: i64) -> Result<(i64, i64, Vec<Arm>)> {
    let mut buffers = 0;
    if let Some(test) = &request.metatag {
        buffers += run(tx, &metatag::look_up(tx.tenant(), scope, test))?.0;
    }
    let arms = store::arms(tx, scope, request)?;
    if arms.is_empty() {
        return Ok((buffers, 0, arms));
    }
    let (page, rows) = run(tx, &union::page(tx.tenant(), scope, &arms, None, &[], limit))?;
    Ok((buffers + page, rows, arms))
}

fn tag(name: &str, contains: impl Into<Option<&'static str>>) -> Request {
    let test = MetatagTest { name: name.into(), contains: contains.into().map(str::to_owned) };
    Request { metatag: Some(test), ..Request::default() }
}

fn pattern(pattern: &str) -> Request {
    Request { glob: Some(pattern.into()), ..Request::default() }
}

fn check(tx: &mut Tx, ctx: &Ctx) -> Result<()> {
    let mut scopes = HashMap::new();
    for (folder, recursive) in
        [("big", false), ("", true), ("big", true), ("small/7", false), ("small", true)]
    {
        let path = FolderPath::parse(folder).unwrap();
        scopes.insert((folder, recursive), scope(tx, ctx, "K", &path, recursive)?.unwrap());
    }
    // Folder, recursive, request, how many files are asked for, how many there are, buffers at most.
    let table = [
        ("big", false, tag("kind", "nowhere"), 20, 0, 40),
        ("big", false, tag("label", "quetzal"), 20, 20, 350),
        ("big", false, tag("kind", "common"), 20, 20, 300),
        ("big", false, tag("label", "medium"), 100, 100, 5500),
        ("big", false, tag("title", None), 100, 100, 300),
        ("big", false, tag("none", None), 100, 0, 40),
        ("small/7", false, tag("kind", "common"), 100, 50, 80),
        ("small/7", false, tag("title", "a"), 100, 50, 80),
        ("", true, tag("label", "quetzal"), 100, 100, 400),
        ("", true, tag("label", "medium"), 100, 100, 5500),
        ("", true, tag("kind", "common"), 100, 100, 5500),
        ("small", true, tag("label", "quetzal"), 100, 5, 400),
        ("big", false, pattern("report-00*"), 20, 20, 15),
        ("big", false, pattern("zebra*"), 20, 0, 15),
        ("big", false, pattern("*0012345*"), 20, 0, 120),
        ("big", false, pattern("*00123*"), 20, 20, 120),
        ("big", false, pattern("*.md"), 100, 100, 120),
        ("big", false, pattern("doc-000[0-3]*"), 20, 20, 120),
        ("", true, pattern("*00123*"), 20, 20, 120),
        ("", true, pattern("report-0001*"), 100, 10, 300),
        ("small", true, pattern("*.csv"), 100, 100, 5500),
    ];
    let mut wrong = Vec::new();
    for (folder, recursive, request, limit, rows, most) in table {
        let scope = &scopes[&(folder, recursive)];
        let (buffers, found, arms) = search(tx, scope, &request, limit)?;
        if buffers > most || found < rows.min(limit) && rows != 50 {
            wrong.push(format!(
                "{folder:?} {recursive} {request:?}: {buffers} buffers of {most}, {found} rows, by {arms:?}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));

    // Many terms of a title: each in four files at most, and the planner would walk through the folder.
    let many = search(tx, &scopes[&("big", false)], &tag("title", "abc"), 20)?;
    let [Arm::Metatag(metatag::Arm::Known(known))] = &many.2[..] else { panic!("{:?}", many.2) };
    assert!(known.len() > 500 && many.1 == 20, "{}", known.len());
    let all = metatag::look_up(
        tx.tenant(),
        &scopes[&("big", false)],
        tag("title", "abc").metatag.as_ref().unwrap(),
    );
    assert!(run(tx, &all)?.0 < 2000);
    let ids: Vec<i64> = {
        #[derive(QueryableByName)]
        struct Id {
            #[diesel(sql_type = diesel::sql_types::BigInt)]
            id: i64,
        }
        let rows: Vec<Id> =
            diesel::sql_query("select id from tag_terms where kind = 't' and term like '%abc%'")
                .load(tx.conn())?;
        rows.into_iter().map(|row| row.id).collect()
    };
    store::allow_scans(tx, false)?;
    let probe = run(tx, &metatag::probe(tx.tenant(), &scopes[&("big", false)], &ids))?;
    store::allow_scans(tx, true)?;
    assert!(probe.0 < 10 * ids.len() as i64 + 2 * probe.1, "{probe:?} for {} terms", ids.len());

    let common = search(tx, &scopes[&("big", false)], &tag("kind", "or"), 20)?;
    assert!(common.0 < 400 && common.1 == 20, "{common:?}");
    let capped = search(tx, &scopes[&("big", false)], &tag("title", "Title"), 20)?;
    assert!(matches!(&capped.2[..], [Arm::Metatag(metatag::Arm::Values(_))]), "{:?}", capped.2);
    let short = search(tx, &scopes[&("big", false)], &tag("title", "ab"), 20)?;
    assert!(matches!(&short.2[..], [Arm::Metatag(metatag::Arm::Values(_))]), "{:?}", short.2);

    let path = vec!["big/x".to_owned()];
    let exact = run(
        tx,
        &files::look_up(tx.tenant(), scopes[&("big", false)].slate_id, path, false, Contents::Of(1)),
    )?;
    assert!(exact.0 <= 12 && exact.1 == 1, "{exact:?}");
    for after in [None, Some("doc-0500000.md"), Some("zzz")] {
        let page = folders::ops::explain_index(
            tx,
            scopes[&("big", false)].slate_id,
            scopes[&("big", false)].folder_id,
            after,
            101,
        )?;
        let (buffers, rows) = read(&page);
        assert!(buffers <= 40, "a page of an index after {after:?}: {buffers} buffers");
        assert_eq!(rows, if after == Some("zzz") { 0 } else { 101 }, "{after:?}");
    }
    // Folders come among the files, each with the sum of its 50.
    let page = folders::ops::explain_index(
        tx,
        scopes[&("small", true)].slate_id,
        scopes[&("small", true)].folder_id,
        None,
        101,
    )?;
    let (buffers, rows) = read(&page);
    assert!(buffers <= 101 * 60 && rows == 101, "an index of folders: {buffers} buffers");

    let both = Request { glob: Some("*00123*".into()), ..tag("label", "quetzal") };
    let (buffers, ..) = search(tx, &scopes[&("big", false)], &both, 20)?;
    assert!(buffers <= 541, "the union: {buffers}");
    Ok(())
}

#[tokio::test]
async fn searches_read_no_more_than_they_should() {
    let (server, caller) = filled().await;
    server.tenant_tx(&caller, check).await;

    let ask = |request: Value| json!({"folder": "big", "request": request, "limit": 3});
    let reply = caller.post("/v1/slates/K/query").json(ask(json!({"glob": "*"}))).await.ok(200);
    assert_eq!(reply["items"].as_array().unwrap().len(), 3);
    let sums =
        caller.post("/v1/slates/K/query").json(json!({"request": {"subfolders": ["."]}})).await.ok(200);
    assert_eq!(
        sums["items"][0]["content"],
        json!([{"name": "big/", "size": null}, {"name": "small/", "size": null}])
    );
    let index = caller.post("/v1/slates/K/query").json(ask(json!({"subfolders": ["."]}))).await.ok(200);
    assert_eq!(index["items"][0]["content"].as_array().unwrap().len(), 10_000);
}
