//! Pages and streams while others write, and streams whose client is slow or goes.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::sql_types::BigInt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use serde_json::{Map, Value, json};
use slatebase::http::server;
use slatebase::item::Mode;
use slatebase::path::FolderPath;
use slatebase::retrieval::budget::Budget;
use slatebase::retrieval::found::After;
use slatebase::retrieval::limits::AskedLimits;
use slatebase::retrieval::ops::query::{Part, Query, Start, choose_page};
use slatebase::retrieval::request;

use crate::support::{Caller, Reply, Server};

fn counted(connection: &mut PgConnection, sql: &str) -> i64 {
    #[derive(QueryableByName)]
    struct Row {
        #[diesel(sql_type = BigInt)]
        count: i64,
    }
    diesel::sql_query(sql).get_result::<Row>(connection).unwrap().count
}

/// The items of a stream, and what its last line says.
fn streamed(reply: Reply) -> (Vec<Value>, Value) {
    let reply = reply.expect(200);
    let mut lines: Vec<Value> =
        reply.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let end = lines.pop().unwrap()["end"].take();
    assert_eq!(end["items"], lines.len());
    (lines, end)
}

async fn stream(caller: &Caller, query: &Value) -> Vec<Value> {
    let request =
        caller.post("/v1/slates/K/query").json(query.clone()).header("accept", "application/x-ndjson");
    let (items, end) = streamed(request.await);
    assert_eq!(end.get("error"), None, "{end}");
    items
}

async fn pages(caller: &Caller, query: &Value, limit: usize) -> Vec<Value> {
    let (mut items, mut query) = (Vec::new(), query.clone());
    query["limit"] = limit.into();
    loop {
        let mut page = caller.post("/v1/slates/K/query").json(query.clone()).await.ok(200);
        items.append(page["items"].as_array_mut().unwrap());
        match page["next_cursor"].take() {
            Value::Null => return items,
            cursor => query["cursor"] = cursor,
        }
    }
}

/// Renames, makes and deletes the files `…m<n>` in and below `d`, until told to stop; tells how often.
async fn disturb(caller: Caller, seed: u64, stop: Arc<AtomicBool>) -> usize {
    let mut random = StdRng::seed_from_u64(seed);
    let mut count = 0;
    // Where each is, if anywhere.
    let mut files: BTreeMap<usize, String> = BTreeMap::new();
    while !stop.load(Ordering::Relaxed) {
        let n = random.random_range(0..12);
        // Before, between and after those that stay, and in a folder below.
        let place = ["!", "s0", "s1", "s2", "s3", "~", "sub/"].choose(&mut random).unwrap();
        let path = format!("d/{place}{:03}m{n}", random.random_range(0..200));
        let at = |path: &str| format!("/v1/slates/K/files/{}", crate::support::in_url(path));
        match files.remove(&n) {
            Some(old) if random.random_bool(0.3) => drop(caller.delete(&at(&old)).await.expect(204)),
            Some(old) if old == path => drop(files.insert(n, path)),
            Some(old) => {
                caller.patch(&at(&old)).json(json!({"path": path})).await.expect(200);
                files.insert(n, path);
            }
            None => {
                let file = json!({"path": path, "content": "m", "metatags": {"t": "moving"}});
                caller.post("/v1/slates/K/files").json(file).await.expect(201);
                files.insert(n, path);
            }
        }
        count += 1;
    }
    count
}

#[tokio::test]
async fn files_that_stay_appear_exactly_once_while_others_come_and_go() {
    let (server, caller) = Server::with_slate().await;
    let mut files = Map::new();
    for n in 0..1000 {
        files.insert(format!("d/s{n:03}"), json!({"content": format!("{n}"), "metatags": {"t": "stays"}}));
    }
    let expected: Vec<String> = files.keys().map(|path| path[2..].to_owned()).collect();
    server.fill(&caller, "K", files.into()).await;
    let requests = [
        (json!({"glob": "*"}), false),
        (json!({"metatag": {"name": "t"}}), true),
        (json!({"files": ["s007", "s300"], "metatag": {"name": "t", "contains": "a"}, "glob": "s*"}), false),
        (json!({"where": {"any": [{"tag": "t", "eq": "stays"}, {"tag": "t", "eq": "moving"}]}}), true),
    ];
    for (seed, (request, recursive)) in requests.into_iter().enumerate() {
        let stop = Arc::new(AtomicBool::new(false));
        let writer = tokio::spawn(disturb(caller.clone(), seed as u64, stop.clone()));
        let query = json!({"folder": "d", "recursive": recursive, "request": request});
        let mut results = vec![stream(&caller, &query).await];
        for limit in [9, 100] {
            results.push(pages(&caller, &query, limit).await);
        }
        stop.store(true, Ordering::Relaxed);
        assert!(writer.await.unwrap() > 10);
        for items in results {
            let mut stayed: Vec<&str> = (items.iter())
                .filter_map(|item| item["path"].as_str())
                .filter(|path| !path.contains('m'))
                .collect();
            stayed.sort_unstable();
            assert_eq!(stayed, expected, "{query}");
        }
        server.check_store();
        let moving = pages(
            &caller,
            &json!({"request": {"metatag": {"name": "t", "contains": "moving"}}, "recursive": true}),
            1000,
        )
        .await;
        for item in moving {
            let path = crate::support::in_url(item["path"].as_str().unwrap());
            caller.delete(&format!("/v1/slates/K/files/{path}")).await.expect(204);
        }
    }
}

/// The files of a whole page go between the statement that finds them, with those of the page before, and the one that reads
/// them.
#[tokio::test]
async fn a_page_whose_files_have_gone_is_not_the_end() {
    let (server, caller) = Server::with_slate().await;
    caller.put("/v1/slates/K/files/d/z.md").body("text/plain", "z").await.expect(201);
    server.copies("d/z.md", 100);
    let Value::Object(sent) = json!({"glob": "*"}) else { unreachable!() };
    let query = Query {
        slate: "K".into(),
        folder: FolderPath::parse("d").unwrap(),
        recursive: false,
        request: request::parse(&sent, Mode::ALL, "").request,
        sent: Value::Object(sent),
    };
    let page = async |start: Start| {
        let query = query.clone();
        let part = Part { start, limit: 10, bytes: 1 << 20, ahead: 1000 };
        server.tenant_tx(&caller, move |tx, ctx| choose_page(tx, ctx, &query, part.clone())).await
    };
    let first = page(Start::new(After::Asked(0), Budget::of_query(AskedLimits::default()))).await;
    assert_eq!(first.len(), 10);
    server
        .superuser()
        .batch_execute(
            "delete from files where id in (select id from files where path like 'd/c%' order by path limit 35);
             delete from file_tags t where not exists (select from files f where f.id = t.file_id)",
        )
        .unwrap();
    let (mut lengths, mut next) = (Vec::new(), first.next);
    while let Some(start) = next {
        let chosen = page(start).await;
        lengths.push(chosen.len());
        next = chosen.next;
    }
    assert_eq!(lengths, [0, 0, 5, 10, 10, 10, 10, 10, 10, 1]);
}

/// Begins a stream, and reads its first line.
fn begin(address: &str, caller: &Caller, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    let token = caller.token.as_deref().unwrap();
    write!(
        stream,
        "POST /v1/slates/K/query HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nAccept: application/x-ndjson\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut byte = [0];
    while byte != [b'{'] {
        assert_eq!(stream.read(&mut byte).unwrap(), 1);
    }
    stream
}

#[tokio::test]
async fn when_the_client_goes_no_further_page_is_made() {
    let (server, caller) = Server::with_slate().await;
    // Sixty pages of 3 MiB and more: far more than connections buffer.
    let large = "x".repeat(16 << 10);
    caller.put("/v1/slates/K/files/d/z.md").body("text/plain", large).await.expect(201);
    server.copies("d/z.md", 12_000);
    let second = server::run(server.app.clone(), server.config()).await.unwrap();
    let address = second.address.to_string();
    // On a thread of its own: the server is started by the one that this test runs on.
    let begun = move || drop(begin(&address, &caller, "{\"folder\": \"d\", \"request\": {\"glob\": \"*\"}}"));
    tokio::task::spawn_blocking(begun).await.unwrap();
    // It waits for all that is in flight, so what it has not made by then it never makes.
    second.stop().await;
    let pages = counted(&mut server.superuser(), "select count(*) from provenance");
    assert!((1..30).contains(&pages), "{pages} pages were made for a client that read one line");
}

/// Texts of several terms, common at the beginning of a folder and rare at its end: short pages and long ones give the same.
#[tokio::test]
async fn pages_of_any_length_give_what_a_stream_gives() {
    let (server, caller) = Server::with_slate().await;
    let mut files = Map::new();
    for n in 0..1500 {
        let topic = match n {
            0..400 if n % 2 == 0 => format!("graph-{}", n % 5),
            1200.. if n % 100 == 7 => "call-graph".to_owned(),
            _ => "other".to_owned(),
        };
        files.insert(format!("d/{n:04}"), json!({"content": "", "metatags": {"topic": topic}}));
    }
    server.fill(&caller, "K", files.into()).await;
    let paths = |items: Vec<Value>| -> Vec<String> {
        items.into_iter().map(|item| item["path"].as_str().unwrap().to_owned()).collect()
    };
    for recursive in [false, true] {
        let request = json!({"metatag": {"name": "topic", "contains": "graph"}});
        let query = json!({"folder": "d", "recursive": recursive, "request": request});
        let streamed = paths(stream(&caller, &query).await);
        assert_eq!(streamed.len(), 203);
        for limit in [7, 50, 120, 1000] {
            assert_eq!(paths(pages(&caller, &query, limit).await), streamed, "{limit}");
        }
    }
}
