//! Records: what they tell, who may read them, and what verifying them finds.

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::sql_types::SmallInt;
use serde_json::{Value, json};
use slatebase::authority::Authority;
use slatebase::folders::ops::NewSettings;
use slatebase::http::page;
use slatebase::provenance::ops::{Link, NewRecord, record};
use slatebase::provenance::record::{FileVersion, Item, Kind};
use slatebase::slates::NewSlate;
use uuid::Uuid;

use crate::support::{Caller, Server};

async fn given() -> (Server, Caller) {
    let server = Server::start().await;
    let caller = server.tenant("acme").await;
    server
        .fill(&caller, "K", json!({"docs/a.md": "one\ntwo\nthree", "docs/b.md": "", "docs/hidden/x.md": "x"}))
        .await;
    server
        .tenant_tx(&caller, |tx, ctx| {
            let low = NewSettings { authority: Some(Authority::Low), sensitive: false };
            slatebase::folders::ops::put(tx, ctx, "K", &"docs".to_owned().try_into().unwrap(), &low)?;
            let hide = NewSettings { sensitive: true, ..NewSettings::default() };
            slatebase::folders::ops::put(tx, ctx, "K", &"docs/hidden".to_owned().try_into().unwrap(), &hide)
                .map(drop)
        })
        .await;
    (server, caller)
}

async fn query(caller: &Caller, request: Value) -> Value {
    caller.post("/v1/slates/K/query").json(json!({"folder": "docs", "request": request})).await.ok(200)
}

async fn item(caller: &Caller, item: &Value) -> Value {
    caller.get(&format!("/v1/provenance/{}", item["provenance_id"].as_str().unwrap())).await.ok(200)
}

#[tokio::test]
async fn an_item_has_the_whole_output_contract() {
    let (_server, caller) = given().await;
    let reply = query(&caller, json!({"files": ["a.md"], "glob": "*"})).await;
    let mut told = item(&caller, &reply["items"][0]).await;
    for member in
        ["/provenance_id", "/retrieved/timestamp", "/provenance/last_modified", "/provenance/reliability"]
    {
        assert!(told.pointer_mut(member).unwrap().take().is_string(), "{member}");
    }
    assert_eq!(
        told,
        json!({
            "provenance_id": null, "kind": "query", "session_id": null, "round": null, "status": "fetched",
            "matched_by": ["files", "glob"],
            "retrieved": {"target": "docs/a.md", "source": "file:docs/a.md", "timestamp": null,
                "data": {"reference": "slate://K/docs/a.md@1"}, "format": "text", "complete": true},
            "citation": {"reference": "slate://K/docs/a.md@1", "version": "1", "authority": "low",
                "hash": format!("sha256:{}", reply["items"][0]["sha256"].as_str().unwrap())},
            "provenance": {"source_type": "file", "last_modified": null, "freshness": "fresh", "reliability": null},
            "extraction": {"applied_filters": null, "original_size": 13, "returned_size": 13, "truncated": false},
            "confidence": 0.9, "evidence_anchors": ["docs/a.md:1-3"], "assumptions": [],
        })
    );
    let empty = item(&caller, &reply["items"][1]).await;
    assert_eq!(empty["evidence_anchors"], json!(["docs/b.md"]));
}

#[tokio::test]
async fn a_record_gives_its_items_in_pages() {
    let (_server, caller) = given().await;
    let files = ["a.md", "a\u{0}", "none.md", "b.md"];
    let reply = query(&caller, json!({"files": files, "subfolders": ["."]})).await;
    let id = reply["items"][0]["provenance_id"].as_str().unwrap().split_once('.').unwrap().0;
    let page = caller.get(&format!("/v1/provenance/{id}?limit=3")).await.ok(200);
    let cursor = page["next_cursor"].as_str().unwrap();
    let rest = caller.get(&format!("/v1/provenance/{id}?limit=3&cursor={cursor}")).await.ok(200);
    assert_eq!(rest["next_cursor"], Value::Null);
    let all: Vec<_> = [&page, &rest].iter().flat_map(|page| page["items"].as_array().unwrap()).collect();
    let told: Vec<_> = all
        .iter()
        .map(|item| json!([item["retrieved"]["target"], item["status"], item["confidence"]]))
        .collect();
    assert_eq!(
        json!(told),
        json!([
            ["docs/a.md", "fetched", 0.9],
            ["a\u{0}", "not_found", 0.0],
            ["none.md", "not_found", 0.0],
            ["docs/b.md", "fetched", 0.9],
            [".", "listing", 0.8]
        ])
    );
    assert_eq!(all[1]["failure"]["reason"], "not_found");
    assert!(
        all.iter()
            .zip(reply["items"].as_array().unwrap())
            .all(|(a, b)| a["provenance_id"] == b["provenance_id"])
    );
}

#[tokio::test]
async fn records_are_read_by_those_alone_who_may_read_the_slate() {
    let (server, caller) = given().await;
    let reply = query(&caller, json!({"files": ["a.md"]})).await;
    let id = reply["items"][0]["provenance_id"].as_str().unwrap().to_owned();
    let record = id.split_once('.').unwrap().0;
    let other = server.tenant("other").await;
    let bound = server.key("acme", json!({"scopes": ["read", "retrieve"], "slates": ["L"]})).await;
    for who in [&other, &bound] {
        who.get(&format!("/v1/provenance/{id}")).await.problem(404, "not_found");
        who.get(&format!("/v1/provenance/{record}")).await.problem(404, "not_found");
    }
    for id in
        ["x", &format!("{record}.2"), &format!("{record}.0"), &format!("{record}."), &Uuid::nil().to_string()]
    {
        caller.get(&format!("/v1/provenance/{id}")).await.problem(404, "not_found");
    }
    let reader = server.key("acme", json!({"scopes": ["read"], "slates": ["K"]})).await;
    reader.get(&format!("/v1/provenance/{id}")).await.expect(200);
    server
        .key("acme", json!({"scopes": ["write"]}))
        .await
        .get(&format!("/v1/provenance/{id}"))
        .await
        .problem(403, "forbidden");
}

#[tokio::test]
async fn a_refused_attempt_is_on_record_and_told_to_admins_alone() {
    let (server, caller) = given().await;
    let reply = query(&caller, json!({"files": ["hidden/x.md"], "subfolders": ["hidden"]})).await;
    let plain = server.key("acme", json!({"scopes": ["retrieve"]})).await;
    for asked in reply["items"].as_array().unwrap() {
        assert_eq!(asked["status"], "not_found");
        assert_eq!(item(&plain, asked).await["status"], "not_found");
        let told = item(&caller, asked).await;
        assert_eq!((&told["status"], &told["failure"]["reason"]), (&json!("refused"), &json!("refused")));
    }
}

#[tokio::test]
async fn what_was_purged_says_that_it_is_gone() {
    let (server, caller) = given().await;
    let reply = query(&caller, json!({"files": ["a.md"]})).await;
    server
        .tenant_tx(&caller, |tx, ctx| {
            slatebase::files::ops::delete(
                tx,
                ctx,
                "K",
                &"docs/a.md".to_owned().try_into().unwrap(),
                true,
                &Default::default(),
            )
        })
        .await;
    let told = item(&caller, &reply["items"][0]).await;
    assert_eq!((&told["failure"]["reason"], &told["retrieved"]["data"]), (&json!("gone"), &Value::Null));
    assert_eq!((&told["retrieved"]["complete"], &told["confidence"]), (&json!(false), &json!(0.0)));
    assert!(told["citation"]["hash"].is_string(), "the hash stays on record");
}

#[tokio::test]
async fn a_volatile_slate_grows_stale() {
    let (server, caller) = given().await;
    server
        .tenant_tx(&caller, |tx, ctx| {
            let volatile = NewSlate { volatile: true, max_age_seconds: Some(60), ..NewSlate::default() };
            slatebase::slates::ops::put(tx, ctx, "K", &volatile).map(drop)
        })
        .await;
    let fresh = query(&caller, json!({"files": ["a.md"]})).await;
    server
        .superuser()
        .batch_execute(
            "update file_versions set created_at = created_at - interval '61 s'; \
             update files set modified_at = modified_at - interval '61 s'",
        )
        .unwrap();
    let stale = query(&caller, json!({"files": ["a.md"]})).await;
    assert_eq!(item(&caller, &fresh["items"][0]).await["provenance"]["freshness"], "fresh");
    let told = item(&caller, &stale["items"][0]).await;
    assert_eq!((&told["provenance"]["freshness"], &told["confidence"]), (&json!("stale"), &json!(0.7)));
}

/// A session of two rounds, its chain written as rounds write it.
async fn session(server: &Server, caller: &Caller) -> Uuid {
    let session = Uuid::now_v7();
    server
        .tenant_tx(caller, move |tx, ctx| {
            let slate = slatebase::slates::ops::get(tx, ctx, "K")?;
            let (_, head) =
                slatebase::files::read::get(tx, ctx, "K", &"docs/a.md".to_owned().try_into().unwrap())?;
            let mut previous = None;
            for round in 1..=2 {
                let file = FileVersion {
                    file_id: head.id,
                    version: head.version,
                    path: head.path.clone(),
                    size: head.size,
                    sha256: head.sha256.clone(),
                };
                let shown = Item {
                    file: Some(file),
                    status: 1,
                    matched_by: 1,
                    authority: 0,
                    freshness: 0,
                    asked: None,
                    detail: None,
                };
                let missed = Item { file: None, status: 3, asked: Some("x\u{0}".into()), ..shown.clone() };
                let new = NewRecord {
                    kind: Kind::Round,
                    link: Some(Link { session_id: session, round, position: i64::from(round), previous }),
                    slate: Some(&slate.name),
                    folder: Some("docs"),
                    recursive: false,
                    request: Some(&json!({"files": ["a.md", "x\u{0}"], "n": 0.1 + 0.2})),
                    items: vec![shown, missed],
                };
                previous = Some(record(tx, ctx, new)?.hash);
            }
            Ok(())
        })
        .await;
    let mut admin = server.superuser();
    admin
        .batch_execute(&format!(
            "insert into sessions (tenant_id, id, slate, folder, declaration, fields, working, status, chain_length, \
                 chain_hash, created_at, updated_at) \
             select tenant_id, session_id, 'K', 'docs', '{{}}', '{{}}', '{{}}', 'answered', position, hash, now(), now() \
             from provenance where session_id = '{session}' and position = 2; \
             insert into session_seals select tenant_id, id, chain_length, chain_hash, now() from sessions where id = '{session}'"
        ))
        .unwrap();
    session
}

async fn verify(caller: &Caller, session: Uuid) -> Value {
    caller.post(&format!("/v1/sessions/{session}/verify")).await.ok(200)
}

#[tokio::test]
async fn a_sound_chain_is_valid_and_stays_when_the_session_goes() {
    let (server, caller) = given().await;
    let session = session(&server, &caller).await;
    let sound = json!({"valid": true, "records": 2, "sealed": true, "problems": []});
    assert_eq!(verify(&caller, session).await, sound);
    server.superuser().batch_execute("delete from sessions").unwrap();
    assert_eq!(verify(&caller, session).await, sound);

    let page = caller.get(&format!("/v1/sessions/{session}/provenance?limit=3")).await.ok(200);
    let cursor = page["next_cursor"].as_str().unwrap();
    let rest =
        caller.get(&format!("/v1/sessions/{session}/provenance?limit=3&cursor={cursor}")).await.ok(200);
    let told = |page: &Value| -> Vec<(Value, Value)> {
        let items = page["items"].as_array().unwrap().iter();
        items.map(|item| (item["round"].clone(), item["status"].clone())).collect()
    };
    let (shown, missed) = (json!("fetched"), json!("not_found"));
    assert_eq!(told(&page), [(json!(1), shown.clone()), (json!(1), missed.clone()), (json!(2), shown)]);
    assert_eq!((told(&rest), &rest["next_cursor"]), (vec![(json!(2), missed)], &Value::Null));
    let forged = page::seal(&(i64::MIN, i64::MAX));
    caller.get(&format!("/v1/sessions/{session}/provenance?cursor={forged}")).await.invalid_at("/cursor");

    let bound = server.key("acme", json!({"scopes": ["retrieve"], "slates": ["L"]})).await;
    let other = server.tenant("other").await;
    for who in [&bound, &other] {
        who.post(&format!("/v1/sessions/{session}/verify")).await.problem(404, "not_found");
        who.get(&format!("/v1/sessions/{session}/provenance")).await.problem(404, "not_found");
    }
    caller.post(&format!("/v1/sessions/{}/verify", Uuid::nil())).await.problem(404, "not_found");
}

#[tokio::test]
async fn whatever_is_altered_removed_or_added_is_found() {
    let (server, caller) = given().await;
    let session = session(&server, &caller).await;
    let mut admin = server.superuser();
    for (alter, restore) in [
        ("update provenance set statuses[2] = 6 where position = 1", "update provenance set statuses[2] = 3"),
        (
            "update provenance set asked = '{\"2\":\"y\"}' where position = 2",
            "update provenance set asked = '{\"2\":\"x\\u0000\"}'",
        ),
        (
            "update provenance set recursive = true where position = 1",
            "update provenance set recursive = false",
        ),
        ("update file_versions set size = size + 1", "update file_versions set size = size - 1"),
        ("update file_versions set path = path || 'x'", "update file_versions set path = left(path, -1)"),
        (
            "create table kept as select * from provenance where position = 2; delete from provenance where position = 2",
            "insert into provenance select * from kept",
        ),
        (
            "create table bytes as select * from files; update files set data = set_byte(data, 0, 1) where size > 0",
            "update files f set data = k.data from bytes k where k.id = f.id",
        ),
        ("update session_seals set records = 3", "update session_seals set records = 2"),
        (
            "insert into provenance select tenant_id, gen_random_uuid(), kind, key_id, session_id, round, 3, hash, hash, \
                 created_at, slate, folder, recursive, request, file_ids, versions, statuses, matched_by, authorities, \
                 freshness, asked from provenance where position = 2",
            "delete from provenance where position = 3",
        ),
    ] {
        admin.batch_execute(alter).unwrap();
        let found = verify(&caller, session).await;
        assert!(
            found["valid"] == false && !found["problems"].as_array().unwrap().is_empty(),
            "{alter}: {found}"
        );
        admin.batch_execute(restore).unwrap();
        assert_eq!(verify(&caller, session).await["valid"], true, "{restore}");
    }
}

#[derive(QueryableByName)]
struct Count {
    #[diesel(sql_type = SmallInt)]
    n: i16,
}

#[tokio::test]
async fn the_service_cannot_change_a_record() {
    let (server, caller) = given().await;
    query(&caller, json!({"files": ["a.md"]})).await;
    for change in ["update provenance set kind = 'x'", "delete from provenance", "truncate provenance"] {
        let ctx = server.local(&caller);
        let refused = server.app.db.tenant(ctx.tenant, move |tx| Ok(tx.conn().batch_execute(change)?)).await;
        assert!(refused.is_err(), "{change}");
    }
    let count: Count =
        diesel::sql_query("select count(*)::smallint as n from provenance where kind = 'query'")
            .get_result(&mut server.superuser())
            .unwrap();
    assert_eq!(count.n, 1);
}
