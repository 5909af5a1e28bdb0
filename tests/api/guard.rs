//! No request holds a connection longer than it may: one slow statement, many, or none.

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use serde_json::json;
use slatebase::db::Tx;
use slatebase::error::{Code, Result};

use crate::support::{Caller, Server, eventually};

/// A server whose transactions may take `milliseconds`.
async fn hurried(milliseconds: u32) -> (Server, Caller) {
    let server = Server::start_with(|config| config.database.statement_timeout_ms = milliseconds).await;
    let caller = server.tenant("acme").await;
    caller.put("/v1/slates/K").await.expect(201);
    caller.put("/v1/slates/K/files/d/a.md").body("text/plain", "a").await.expect(201);
    (server, caller)
}

fn nap(tx: &mut Tx, seconds: f64) -> Result<()> {
    Ok(tx.conn().batch_execute(&format!("select pg_sleep({seconds})"))?)
}

#[tokio::test]
async fn a_request_that_waits_for_too_long_is_told_what_to_narrow() {
    let (server, caller) = hurried(1000).await;
    let mut admin = server.superuser();
    admin.batch_execute("begin; lock table files, file_tags in access exclusive mode").unwrap();
    let query = json!({"folder": "d", "request": {"glob": "*"}});
    let requests = [
        caller.post("/v1/slates/K/query").json(query.clone()),
        caller.post("/v1/slates/K/query").json(query.clone()).header("accept", "application/x-ndjson"),
        caller.get("/v1/slates/K/files/d/a.md"),
        caller.get("/v1/slates/K/facets?folder=d"),
        caller.put("/v1/slates/K/files/d/b.md").body("text/plain", "b"),
    ];
    for request in requests {
        let reply = request.await;
        assert!(!reply.header("retry-after").is_empty());
        let problem = reply.json();
        let detail = problem["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains("smaller folder") && detail.contains("more selective"), "{detail}");
        reply.problem(503, "query_timeout");
    }
    admin.batch_execute("commit").unwrap();
    // Every connection is free again, and none is in a transaction that failed.
    for _ in 0..8 {
        assert_eq!(
            caller.post("/v1/slates/K/query").json(query.clone()).await.ok(200)["items"][0]["content"],
            "a"
        );
    }
    caller.get("/v1/slates/K/files/d/b.md").await.problem(404, "not_found");
}

/// Each statement is well within the time; all together are not.
#[tokio::test]
async fn many_statements_have_one_time_together() {
    let (server, caller) = hurried(1000).await;
    let ctx = server.local(&caller);
    let (done, count) = tokio::task::spawn_blocking(move || {
        let mut count = 0;
        let done = server.app.db.tenant_blocking(ctx.tenant, |tx| {
            for _ in 0..40 {
                nap(tx, 0.3)?;
                count += 1;
            }
            Ok(())
        });
        (done, count)
    })
    .await
    .unwrap();
    assert_eq!(done.unwrap_err().code, Code::QueryTimeout);
    assert!(count < 4, "{count} statements of 0.3 s ran within 1 s");
}

/// What was done before the time was over is undone, whatever came of the last statement.
#[tokio::test]
async fn work_that_takes_too_long_between_statements_commits_nothing() {
    let (server, caller) = hurried(300).await;
    let ctx = server.local(&caller);
    let slates = tokio::task::spawn_blocking(move || {
        let done = server.app.db.tenant_blocking(ctx.tenant, |tx| {
            tx.conn().batch_execute("update slates set description = 'late'")?;
            std::thread::sleep(std::time::Duration::from_millis(400));
            let refused: Result<()> = nap(tx, 0.0);
            assert!(refused.is_err());
            Ok(())
        });
        assert_eq!(done.unwrap_err().code, Code::QueryTimeout);
        server
    })
    .await
    .unwrap();
    assert_eq!(caller.get("/v1/slates/K").await.ok(200)["description"], json!(null));
    drop(slates);
}

#[tokio::test]
async fn what_may_take_long_is_not_stopped() {
    let (server, caller) = hurried(200).await;
    let long = |tx: &mut Tx| {
        tx.without_timeout()?;
        (0..3).try_for_each(|_| nap(tx, 0.2))
    };
    server.app.db.tenant(server.local(&caller).tenant, long).await.unwrap();
}

/// The database itself ends a transaction that asks for nothing, so that a stuck one keeps no locks.
#[tokio::test]
async fn a_transaction_that_asks_for_nothing_is_ended() {
    let (server, caller) = hurried(60_000).await;
    let shown = server
        .tenant_tx(&caller, |tx, _| {
            #[derive(QueryableByName)]
            struct Shown {
                #[diesel(sql_type = diesel::sql_types::Text)]
                value: String,
            }
            let sql = "select current_setting('idle_in_transaction_session_timeout') as value";
            Ok(diesel::sql_query(sql).get_result::<Shown>(tx.conn())?.value)
        })
        .await;
    assert_eq!(shown, "1min");
    let ctx = server.local(&caller);
    let error = tokio::task::spawn_blocking(move || {
        let mut admin = server.superuser();
        let stuck = server.app.db.tenant_blocking(ctx.tenant, |tx| {
            tx.conn().batch_execute(
                "set local idle_in_transaction_session_timeout = 50; lock table files in row exclusive mode",
            )?;
            // It gets the lock once the database has ended the transaction that has it.
            admin.batch_execute("begin; lock table files in access exclusive mode; commit").unwrap();
            nap(tx, 0.0)
        });
        (stuck.unwrap_err(), server).0
    })
    .await
    .unwrap();
    assert_eq!(error.code, Code::Unavailable);
}

/// A client that sends its request slowly, or takes its answer slowly, does so without a connection of the database.
#[tokio::test]
async fn a_client_that_is_stuck_holds_no_connection() {
    use std::io::Write;
    let (server, caller) = hurried(10_000).await;
    let address = caller.base.strip_prefix("http://").unwrap();
    let head = |request: &str| {
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        let token = caller.token.as_deref().unwrap();
        write!(stream, "{request} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n").unwrap();
        stream
    };
    // More of each kind than there are connections.
    let mut stuck = Vec::new();
    for n in 0..6 {
        let mut sending = head(&format!("PUT /v1/slates/K/files/stuck-{n}"));
        write!(sending, "Content-Length: 1000\r\n\r\nabc").unwrap();
        let body = "{\"request\": {\"glob\": \"*\"}, \"recursive\": true}";
        let mut taking = head("POST /v1/slates/K/query");
        write!(
            taking,
            "Accept: application/x-ndjson\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        stuck.extend([sending, taking]);
    }
    let records = || {
        #[derive(QueryableByName)]
        struct Count {
            #[diesel(sql_type = diesel::sql_types::BigInt)]
            count: i64,
        }
        let sql = "select count(*) from provenance";
        diesel::sql_query(sql).get_result::<Count>(&mut server.superuser()).unwrap().count
    };
    eventually("the queries are answered", || records() == 6).await;
    for _ in 0..8 {
        caller.get("/v1/slates/K/files/d/a.md").await.expect(200);
    }
}
