//! A stream of far more than may be in memory at once, and a client that takes it as slowly as it likes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use diesel::prelude::*;
use diesel::sql_types::BigInt;
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::served::Served;
use crate::support::{Cli, place, put};

const FILES: u32 = 20_000;

#[test]
fn a_stream_is_sent_in_bounded_memory() {
    let cli = Cli::new();
    let source = place();
    put(source.path(), "d/a.md", "x".repeat(8 << 10));
    cli.seed(source.path(), &[]).expect(0);
    cli.database.copies("d/a.md", FILES - 1);
    let token = cli.run(&["key", "create", "acme"]).expect(0).out;
    let (served, _) =
        Served::start(&mut cli.command(&["serve", "--no-migrate", "--listen", "127.0.0.1:0"]), |line| {
            line.starts_with("serving ")
        });
    served.client(&token).post("/v1/slates/S/query", serde_json::json!({"request": {"files": ["d/a.md"]}}));
    let before = served.peak_memory();

    let mut stream = TcpStream::connect(served.base.strip_prefix("http://").unwrap()).unwrap();
    let body = "{\"folder\": \"d\", \"request\": {\"glob\": \"*\"}}";
    // The answer comes in chunks of whole lines; of what it is framed with no line begins like an item.
    write!(
        stream,
        "POST /v1/slates/S/query HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer {}\r\nAccept: application/x-ndjson\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        token.trim(),
        body.len()
    )
    .unwrap();
    let mut lines = BufReader::with_capacity(4 << 10, stream);
    let mut line = String::new();
    while line != "\r\n" {
        line.clear();
        assert_ne!(lines.read_line(&mut line).unwrap(), 0);
    }
    // As long as the client takes nothing more, only so many pages are made as the connection itself holds.
    while !line.starts_with('{') {
        line.clear();
        assert_ne!(lines.read_line(&mut line).unwrap(), 0);
    }
    assert!(serde_json::from_str::<Value>(&line).unwrap()["content"].is_string());
    #[derive(QueryableByName)]
    struct Row {
        #[diesel(sql_type = BigInt)]
        count: i64,
    }
    let made: Row = diesel::sql_query("select count(*) from provenance")
        .get_result(&mut cli.database.superuser())
        .unwrap();
    assert!(made.count < 30, "{} pages were made for one line", made.count);

    let (mut items, mut bytes, mut end) = (1, line.len(), None);
    loop {
        line.clear();
        match lines.read_line(&mut line).unwrap() {
            0 => break,
            read => bytes += read,
        }
        if line.starts_with("{\"end\"") {
            end = Some(serde_json::from_str::<Value>(&line).unwrap()["end"].take());
        } else if line.starts_with('{') {
            items += 1;
        }
    }
    let mut rest = Vec::new();
    lines.read_to_end(&mut rest).unwrap();
    let end = end.expect("a last line");
    assert_eq!((items, end.get("error"), &end["items"]), (FILES, None, &FILES.into()));
    assert!(bytes > 160 << 20);
    let grown = (served.peak_memory() - before) / 1024;
    assert!(grown < 64, "sending {} MiB took {grown} MiB of memory", bytes >> 20);
    let (status, log) = served.stop(Signal::SIGTERM);
    assert_eq!(status.code(), Some(0), "{log}");
}
