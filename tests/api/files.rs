//! Files one at a time: their bytes, tags, ranges, names and limits. Their versions are in `history`.

use diesel::connection::SimpleConnection;
use serde_json::{Value, json};

use crate::support::{Caller, Request, Server, at_once, in_url};

const FILES: &str = "/v1/slates/K/files";

fn put(caller: &Caller, path: &str, bytes: impl Into<Vec<u8>>) -> Request {
    caller.put(&format!("{FILES}/{}", in_url(path))).body("application/x-www-form-urlencoded", bytes.into())
}

fn get(caller: &Caller, path: &str) -> Request {
    caller.get(&format!("{FILES}/{}", in_url(path)))
}

fn post(caller: &Caller, body: Value) -> Request {
    caller.post(FILES).json(body)
}

#[tokio::test]
async fn bytes_come_back_exactly() {
    let (_server, caller) = Server::with_slate().await;
    for (name, bytes) in [
        ("empty", &b""[..]),
        ("nul", b"a\0b"),
        ("not-utf8", b"\xff\xfe\x00\x80"),
        ("lines", b"\xef\xbb\xbfa\r\nb\n\n"),
    ] {
        let made = put(&caller, name, bytes).await.ok(201);
        assert_eq!((&made["size"], &made["version"]), (&json!(bytes.len()), &json!(1)), "{name}");
        let reply = get(&caller, name).await.expect(200);
        assert_eq!(reply.body, bytes, "{name}");
        assert_eq!(reply.header("content-length"), bytes.len().to_string());
        assert_eq!(reply.header("slatebase-version"), "1");
    }
    let sha256 = put(&caller, "empty", "").await.ok(200)["sha256"].clone();
    assert_eq!(sha256, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

#[tokio::test]
async fn a_head_tells_what_a_get_would() {
    let (_server, caller) = Server::with_slate().await;
    for (name, bytes) in [("a.md", "12345"), ("empty.md", "")] {
        put(&caller, name, bytes).await.expect(201);
        let (head, get) =
            (caller.head(&format!("{FILES}/{name}")).await.expect(200), get(&caller, name).await);
        assert_eq!(head.body, b"");
        let told = ["content-length", "content-type", "etag", "accept-ranges", "last-modified"];
        for header in told.into_iter().chain(["slatebase-version", "content-security-policy"]) {
            assert!(!head.header(header).is_empty(), "{header}");
            assert_eq!(head.header(header), get.header(header), "{header}");
        }
    }
    caller.head(&format!("{FILES}/nope")).await.expect(404);
}

#[tokio::test]
async fn the_same_bytes_make_no_new_version() {
    let (_server, caller) = Server::with_slate().await;
    let first = put(&caller, "a", "x").await.expect(201);
    for _ in 0..2 {
        let again = put(&caller, "a", "x").await.expect(200);
        assert_eq!((again.header("etag"), again.json()), (first.header("etag"), first.json()));
    }
    assert_eq!(put(&caller, "a", "y").await.ok(200)["version"], 2);
    // Bytes that it had before are new ones.
    assert_eq!(put(&caller, "a", "x").await.ok(200)["version"], 3);
}

#[tokio::test]
async fn sixty_four_mebibytes_fit_and_one_byte_more_does_not() {
    let (_server, caller) = Server::with_slate().await;
    let mut bytes: Vec<u8> = (0..64u32 << 20).map(|i| (i ^ (i >> 9)) as u8).collect();
    assert_eq!(put(&caller, "big", bytes.clone()).await.ok(201)["size"], 64 << 20);
    assert!(get(&caller, "big").await.expect(200).body == bytes);
    let end = get(&caller, "big").header("range", "bytes=67108860-").await.expect(206);
    assert_eq!(end.body, bytes[67_108_860..]);
    bytes.push(0);
    put(&caller, "big", bytes).await.problem(413, "body_too_large");
    let text = "x".repeat((64 << 20) + 1);
    post(&caller, json!({"path": "big", "content": text})).await.problem(413, "body_too_large");
    assert_eq!(caller.head(&format!("{FILES}/big")).await.header("slatebase-version"), "1");
}

#[tokio::test]
async fn a_range_of_bytes() {
    let (_server, caller) = Server::with_slate().await;
    put(&caller, "ten", "0123456789").await.expect(201);
    for (range, body, told) in [
        ("bytes=0-0", "0", "bytes 0-0/10"),
        ("bytes=3-5", "345", "bytes 3-5/10"),
        ("bytes=7-", "789", "bytes 7-9/10"),
        ("bytes=-3", "789", "bytes 7-9/10"),
        ("bytes=-99", "0123456789", "bytes 0-9/10"),
        ("bytes=8-18446744073709551615", "89", "bytes 8-9/10"),
    ] {
        let reply = get(&caller, "ten").header("range", range).await.expect(206);
        assert_eq!((reply.text(), reply.header("content-range")), (body, told), "{range}");
        assert_eq!(reply.header("content-length"), body.len().to_string());
    }
    for range in ["bytes=0-1,3-4", "bytes=5-3", "bytes=x", "lines=1-2", "bytes"] {
        let reply = get(&caller, "ten").header("range", range).await.expect(200);
        assert_eq!((reply.text(), reply.header("content-range")), ("0123456789", ""), "{range}");
    }
    for range in ["bytes=10-", "bytes=99-100", "bytes=-0"] {
        let reply = get(&caller, "ten").header("range", range).await;
        assert_eq!(reply.header("content-range"), "bytes */10", "{range}");
        reply.problem(416, "range_not_satisfiable");
    }
    put(&caller, "empty", "").await.expect(201);
    for range in ["bytes=0-", "bytes=-1"] {
        get(&caller, "empty").header("range", range).await.problem(416, "range_not_satisfiable");
    }
}

#[tokio::test]
async fn a_range_only_of_what_the_client_has() {
    let (_server, caller) = Server::with_slate().await;
    let etag = put(&caller, "a", "0123456789").await.expect(201).header("etag").to_owned();
    let range = |tag: &str| get(&caller, "a").header("range", "bytes=0-1").header("if-range", tag);
    range(&etag).await.expect(206);
    for tag in ["\"other\"", &format!("W/{etag}"), "Tue, 01 Dec 2026 00:00:00 GMT"] {
        assert_eq!(range(tag).await.expect(200).text(), "0123456789", "{tag}");
    }
    let fresh = range(&etag).header("if-none-match", &etag).await;
    assert_eq!(fresh.expect(304).body, b"");
}

#[tokio::test]
async fn neither_a_file_nor_a_part_of_one_is_compressed() {
    let (_server, caller) = Server::with_slate().await;
    put(&caller, "a.md", "x".repeat(10_000)).await.expect(201);
    for range in ["bytes=0-4999", "bytes=0-1,5-6"] {
        let reply = get(&caller, "a.md").header("accept-encoding", "gzip, br").header("range", range).await;
        assert_eq!(reply.header("content-encoding"), "");
        assert_eq!(reply.header("content-length"), reply.body.len().to_string());
    }
}

#[tokio::test]
async fn a_write_happens_only_where_its_conditions_hold() {
    let (_server, caller) = Server::with_slate().await;
    let etag =
        put(&caller, "a", "1").header("if-none-match", "*").await.expect(201).header("etag").to_owned();
    let at = format!("{FILES}/a");
    for (header, value) in [("if-none-match", "*"), ("if-match", "\"x\""), ("if-none-match", &*etag)] {
        put(&caller, "a", "2").header(header, value).await.problem(412, "precondition_failed");
        let body = json!({"path": "a", "content": "2"});
        post(&caller, body).header(header, value).await.problem(412, "precondition_failed");
        let moved = caller.patch(&at).json(json!({"path": "b"}));
        moved.header(header, value).await.problem(412, "precondition_failed");
        caller.delete(&at).header(header, value).await.problem(412, "precondition_failed");
        let tags = "/v1/slates/K/metatags/a";
        caller.put(tags).json(json!({})).header(header, value).await.problem(412, "precondition_failed");
        caller.patch(tags).json(json!({})).header(header, value).await.problem(412, "precondition_failed");
    }
    put(&caller, "new", "1").header("if-match", "*").await.problem(412, "precondition_failed");
    assert_eq!(get(&caller, "a").await.expect(200).header("etag"), etag);
    let etag = put(&caller, "a", "2").header("if-match", &etag).await.expect(200).header("etag").to_owned();
    caller.delete(&at).header("if-match", &etag).await.expect(204);
}

#[tokio::test]
async fn an_unchanged_file_is_not_sent_again() {
    let (_server, caller) = Server::with_slate().await;
    let etag = put(&caller, "a", "1").await.expect(201).header("etag").to_owned();
    for tags in [etag.clone(), format!("\"x\", W/{etag}"), "*".into()] {
        let reply = get(&caller, "a").header("if-none-match", &tags).await.expect(304);
        assert_eq!((reply.body.len(), reply.header("etag")), (0, &*etag));
        caller.head(&format!("{FILES}/a")).header("if-none-match", &tags).await.expect(304);
    }
    get(&caller, "a").header("if-none-match", "\"x\"").await.expect(200);
    get(&caller, "a").header("if-match", "\"x\"").await.problem(412, "precondition_failed");
}

#[tokio::test]
async fn the_entity_tag_covers_bytes_settings_path_and_metatags() {
    let (_server, caller) = Server::with_slate().await;
    let mut seen = vec![put(&caller, "a", "1").await.expect(201).header("etag").to_owned()];
    for (method, path, body) in [
        ("PATCH", "files/a", json!({"media_type": "text/x"})),
        ("PATCH", "files/a", json!({"authority": "low"})),
        ("PUT", "metatags/a", json!({"x": 1})),
        ("PATCH", "metatags/a", json!({"x": null})),
        ("POST", "files", json!({"path": "a", "content": "2"})),
        ("PATCH", "files/a", json!({"path": "b"})),
    ] {
        let reply = caller.request(method, &format!("/v1/slates/K/{path}")).json(body.clone()).await;
        let etag = reply.expect(200).header("etag").to_owned();
        assert!(!seen.contains(&etag), "{body}");
        seen.push(etag);
    }
    assert_eq!(get(&caller, "b").await.header("etag"), seen[6]);
    assert_eq!(caller.get("/v1/slates/K/metatags/b").await.header("etag"), seen[6]);
}

#[tokio::test]
async fn the_media_type_is_what_the_writer_says_or_the_name_tells() {
    let (_server, caller) = Server::with_slate().await;
    for (name, told) in [("a.md", "text/markdown"), ("a.png", "image/png"), ("a", "application/octet-stream")]
    {
        assert_eq!(put(&caller, name, "x").await.ok(201)["media_type"], told);
    }
    let said = |kind: &str| caller.put(&format!("{FILES}/b.md")).body(kind, "x");
    assert_eq!(said("text/html; charset=utf-8").await.ok(201)["media_type"], "text/html; charset=utf-8");
    assert_eq!(get(&caller, "b.md").await.header("content-type"), "text/html; charset=utf-8");
    // Who says nothing keeps what was said.
    assert_eq!(put(&caller, "b.md", "y").await.ok(200)["media_type"], "text/html; charset=utf-8");
    let patched =
        caller.patch(&format!("{FILES}/b.md")).json(json!({"media_type": "text/plain"})).await.ok(200);
    assert_eq!((&patched["media_type"], &patched["version"]), (&json!("text/plain"), &json!(2)));
    for wrong in ["text", "/x", "text/", "a b/c", "text/x\u{1}", &format!("text/{}", "x".repeat(255))] {
        post(&caller, json!({"path": "b.md", "content": "", "media_type": wrong}))
            .await
            .invalid_at("/media_type");
        caller
            .patch(&format!("{FILES}/b.md"))
            .json(json!({"media_type": wrong}))
            .await
            .invalid_at("/media_type");
    }
}

#[tokio::test]
async fn a_posted_file_has_its_contents_as_text_or_base64() {
    let (_server, caller) = Server::with_slate().await;
    let body = json!({"path": "d/a.md", "content": "é\0", "metatags": {"x": 1}, "authority": "high",
        "source_modified_at": "2020-01-01T01:00:00.123456789+01:00", "source_version": "git:1"});
    let made = post(&caller, body).await.ok(201);
    assert_eq!(made["source_modified_at"], "2020-01-01T00:00:00.123456Z");
    assert_eq!((&made["source_version"], &made["authority"]), (&json!("git:1"), &json!("high")));
    assert_eq!(get(&caller, "d/a.md").await.text(), "é\0");
    let again = post(&caller, json!({"path": "d/a.md", "content_base64": "/wAB"})).await.ok(200);
    assert_eq!((&again["version"], &again["authority"]), (&json!(2), &json!("high")));
    assert_eq!(get(&caller, "d/a.md").await.body, b"\xff\x00\x01");
    assert_eq!(caller.get("/v1/slates/K/metatags/d/a.md").await.ok(200), json!({"x": 1}));
}

#[tokio::test]
async fn a_posted_file_that_is_wrong_is_refused_by_pointer() {
    let (_server, caller) = Server::with_slate().await;
    for (member, value, at) in [
        ("content_base64", json!("eA=="), "/content"),
        ("content", json!(null), "/content"),
        ("content", json!(1), "/content"),
        ("path", json!("/a"), "/path"),
        ("path", json!("a\0"), "/path"),
        ("path", json!(""), "/path"),
        ("authority", json!("x"), "/authority"),
        ("sensitive", json!("x"), "/sensitive"),
        ("source_version", json!(""), "/source_version"),
        ("source_version", json!("a\0"), "/source_version"),
        ("source_modified_at", json!("yesterday"), "/source_modified_at"),
        ("source_modified_at", json!("-100000-01-01T00:00:00Z"), "/source_modified_at"),
        ("source_modified_at", json!("+200000-01-01T00:00:00Z"), "/source_modified_at"),
        ("metatags", json!({"a/b": "x\0"}), "/metatags/a~1b"),
        ("metatags", json!([]), "/metatags"),
        ("unknown", json!(1), "/unknown"),
    ] {
        let mut body = json!({"path": "a", "content": "x"});
        body[member] = value;
        post(&caller, body).await.invalid_at(at);
    }
    post(&caller, json!({"path": "a", "content_base64": "?"})).await.invalid_at("/content_base64");
    for number in ["1e400", "123456789012345678901234567890"] {
        let body = format!(r#"{{"path":"a","content":"","metatags":{{"n":[{number}]}}}}"#);
        caller.post(FILES).body("application/json", body).await.invalid_at("/metatags/n/0");
    }
    caller.post(FILES).body("text/plain", "x").await.problem(415, "unsupported_media_type");
    get(&caller, "a").await.problem(404, "not_found");
}

#[tokio::test]
async fn names_are_kept_byte_for_byte() {
    let (_server, caller) = Server::with_slate().await;
    for path in ["a b", "100%", "%41", "%2F", "a+b", "x?y#z", "new\nline", "日本/é/𝄞", "...", "_%*[x]'\";"]
    {
        assert_eq!(put(&caller, path, path).await.ok(201)["path"], path);
        assert_eq!(get(&caller, path).await.expect(200).text(), path);
    }
    assert_eq!(put(&caller, "A B", "").await.ok(201)["path"], "A B");
}

#[tokio::test]
async fn a_name_that_differs_only_in_normal_form_is_found_and_not_made_twice() {
    let (_server, caller) = Server::with_slate().await;
    let (composed, decomposed) = ("caf\u{e9}", "cafe\u{301}");
    put(&caller, &format!("{decomposed}/{composed}"), "1").await.expect(201);
    for path in [format!("{composed}/{composed}"), format!("{composed}/{decomposed}")] {
        assert_eq!(get(&caller, &path).await.expect(200).text(), "1");
        put(&caller, &path, "2").await.problem(409, "name_conflict");
    }
    put(&caller, &format!("{decomposed}/{decomposed}"), "2").await.problem(409, "name_conflict");
    put(&caller, composed, "2").await.problem(409, "name_conflict");
    // The file itself may be respelt.
    let moved = caller.patch(&format!("{FILES}/{}", in_url(&format!("{decomposed}/{composed}"))));
    let to = format!("{decomposed}/{decomposed}");
    assert_eq!(moved.json(json!({"path": to})).await.ok(200)["path"], to);
}

#[tokio::test]
async fn names_paths_and_levels_have_limits() {
    let (_server, caller) = Server::with_slate().await;
    let long = "é".repeat(127);
    let path = |length: usize| format!("{0}/{0}/{0}/{1}", "d".repeat(255), "x".repeat(length - 768));
    for fits in [format!("{long}x"), path(1023), vec!["d"; 64].join("/")] {
        put(&caller, &fits, "").await.expect(201);
    }
    let at_limit = format!("{0}/{0}/{0}/{1}/x", "d".repeat(255), "y".repeat(254));
    assert_eq!(at_limit.len(), 1024);
    put(&caller, &at_limit, "").await.expect(201);
    let wrong = [
        "x".repeat(256),
        format!("{long}xx"),
        format!("{at_limit}x"),
        vec!["d"; 65].join("/"),
        "a\\b".into(),
    ];
    for wrong in wrong.iter().map(String::as_str).chain(["", "a//b", "a/", "/a"]) {
        put(&caller, wrong, "").await.invalid_at("");
        post(&caller, json!({"path": wrong, "content": ""})).await.invalid_at("/path");
        get(&caller, wrong).await.problem(404, "not_found");
    }
}

#[tokio::test]
async fn a_name_is_a_file_or_a_folder() {
    let (_server, caller) = Server::with_slate().await;
    put(&caller, "file", "").await.expect(201);
    caller.put("/v1/slates/K/folders/folder").await.expect(201);
    put(&caller, "folder", "").await.problem(409, "name_conflict");
    put(&caller, "file/x", "").await.problem(409, "name_conflict");
    put(&caller, "file/x/y", "").await.problem(409, "name_conflict");
    caller.put("/v1/slates/K/folders/file").await.problem(409, "name_conflict");
    for (from, to) in [("files/file", "folder"), ("files/file", "file/x"), ("folders/folder", "file")] {
        let moved = caller.patch(&format!("/v1/slates/K/{from}")).json(json!({"path": to}));
        moved.await.problem(409, "name_conflict");
    }
}

#[tokio::test]
async fn of_a_file_and_a_folder_made_at_once_one_wins() {
    let (_server, caller) = Server::with_slate().await;
    for round in 0..40 {
        let (file, below) = (format!("d{}/n{round}", round / 4), format!("d{}/n{round}/x", round / 4));
        let both = match round % 2 {
            0 => [put(&caller, &file, ""), put(&caller, &below, "")],
            _ => [caller.put(&format!("/v1/slates/K/folders/{file}")), put(&caller, &file, "")],
        };
        let mut statuses: Vec<u16> = at_once(both).await.iter().map(|reply| reply.status).collect();
        statuses.sort_unstable();
        assert_eq!(statuses, [201, 409], "round {round}");
    }
}

#[tokio::test]
async fn of_two_that_make_a_file_only_where_there_is_none_one_wins() {
    let (_server, caller) = Server::with_slate().await;
    for round in 0..20 {
        let path = format!("f{round}");
        let make = |text: &str| put(&caller, &path, text).header("if-none-match", "*");
        let replies = at_once(["1", "2", "3", "4"].map(make)).await;
        let mut statuses: Vec<u16> = replies.iter().map(|reply| reply.status).collect();
        statuses.sort_unstable();
        assert_eq!(statuses, [201, 412, 412, 412], "round {round}");
    }
}

#[tokio::test]
async fn what_is_there_is_never_taken_for_missing_while_it_is_written() {
    let (_server, caller) = Server::with_slate().await;
    put(&caller, "a", "x").await.expect(201);
    for round in 0..30 {
        let replies = at_once([
            put(&caller, "a", format!("{round}")),
            put(&caller, "a", "mine").header("if-none-match", "*"),
            caller.patch("/v1/slates/K/metatags/a").json(json!({"round": round})),
            caller.patch(&format!("{FILES}/a")).json(json!({"media_type": format!("text/x-{round}")})),
        ]);
        let statuses: Vec<u16> = replies.await.iter().map(|reply| reply.status).collect();
        assert_eq!(statuses, [200, 412, 200, 200], "round {round}");
    }
}

#[tokio::test]
async fn of_many_changes_of_one_tag_one_wins() {
    let (_server, caller) = Server::with_slate().await;
    let mut etag = put(&caller, "a", "x").await.expect(201).header("etag").to_owned();
    for round in 0..10 {
        let write = |text: &str| put(&caller, "a", format!("{round}{text}")).header("if-match", &etag);
        let replies = at_once(["1", "2", "3", "4"].map(write)).await;
        let won: Vec<_> = replies.iter().filter(|reply| reply.status == 200).collect();
        assert_eq!(won.len(), 1, "round {round}");
        assert_eq!(replies.iter().filter(|reply| reply.status == 412).count(), 3);
        etag = won[0].header("etag").to_owned();
    }
}

#[tokio::test]
async fn a_post_under_a_key_happens_once() {
    let (_server, caller) = Server::with_slate().await;
    let send =
        |text: &str| post(&caller, json!({"path": "a", "content": text})).header("idempotency-key", "k");
    let first = send("1").await.expect(201);
    put(&caller, "a", "2").await.expect(200);
    let again = send("1").await.expect(201);
    assert_eq!((again.header("idempotency-replayed"), &again.body), ("true", &first.body));
    assert_eq!(again.header("etag"), first.header("etag"));
    assert_eq!(get(&caller, "a").await.text(), "2");
    send("3").await.problem(422, "idempotency_mismatch");
}

#[tokio::test]
async fn connections_that_died_are_replaced_unseen() {
    let (server, caller) = Server::with_slate().await;
    put(&caller, "a", "x").await.expect(201);
    for _ in 0..3 {
        for reply in at_once((0..4).map(|_| get(&caller, "a"))).await {
            reply.expect(200);
        }
        server
            .superuser()
            .batch_execute(
                "select pg_terminate_backend(pid, 5000) from pg_stat_activity \
                 where application_name = 'slatebase' and datname = current_database()",
            )
            .unwrap();
        put(&caller, "a", "x").await.expect(200);
        get(&caller, "a").await.expect(200);
    }
}

#[tokio::test]
async fn a_statement_that_takes_too_long_is_told_so() {
    let server = Server::start_with(|config| config.database.statement_timeout_ms = 300).await;
    let caller = server.tenant("acme").await;
    caller.put("/v1/slates/K").await.expect(201);
    put(&caller, "a", "x").await.expect(201);
    let mut admin = server.superuser();
    admin.batch_execute("begin; lock table blobs in access exclusive mode").unwrap();
    let reply = get(&caller, "a").await;
    assert_eq!(reply.header("retry-after"), "1");
    reply.problem(503, "query_timeout");
    admin.batch_execute("commit").unwrap();
    get(&caller, "a").await.expect(200);
}
