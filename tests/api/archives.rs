//! Archives in and out.

use std::io::{Cursor, Read, Write};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use tar::{EntryType, Header};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use crate::support::{Caller, Reply, Server, in_url};

/// An entry whose name nobody has checked.
fn entry(name: &[u8], kind: EntryType, contents: &[u8]) -> Vec<u8> {
    let mut header = Header::new_ustar();
    header.as_old_mut().name[..name.len()].copy_from_slice(name);
    header.set_entry_type(kind);
    header.set_size(contents.len() as u64);
    header.set_mode(0o644);
    header.set_mtime(1_700_000_000);
    header.set_cksum();
    let mut entry = header.as_bytes().to_vec();
    entry.extend_from_slice(contents);
    entry.resize(entry.len().next_multiple_of(512), 0);
    entry
}

fn file(name: &str, contents: &str) -> Vec<u8> {
    entry(name.as_bytes(), EntryType::Regular, contents.as_bytes())
}

fn tar(entries: &[Vec<u8>]) -> Vec<u8> {
    let mut tar = entries.concat();
    tar.resize(tar.len() + 1024, 0);
    tar
}

fn gz(bytes: &[u8]) -> Vec<u8> {
    let mut gz = GzEncoder::new(Vec::new(), Compression::fast());
    gz.write_all(bytes).unwrap();
    gz.finish().unwrap()
}

fn unpack(gz: &[u8]) -> Vec<u8> {
    let mut tar = Vec::new();
    GzDecoder::new(gz).read_to_end(&mut tar).unwrap();
    tar
}

/// The lines of an import, and what its last one tells.
fn told(reply: &Reply) -> (Vec<Value>, Value) {
    assert_eq!(
        (reply.status, reply.header("content-type")),
        (200, "application/x-ndjson"),
        "{}",
        reply.text()
    );
    let mut lines: Vec<Value> =
        reply.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let end = lines.pop().unwrap()["end"].take();
    assert!(end.is_object(), "{}", reply.text());
    (lines, end)
}

async fn import(caller: &Caller, to: &str, archive: Vec<u8>) -> (Vec<Value>, Value) {
    told(&caller.post(&format!("/v1/slates/{to}")).body("application/gzip", archive).await)
}

async fn export(caller: &Caller, from: &str) -> Vec<u8> {
    let reply = caller.get(&format!("/v1/slates/{from}")).await.expect(200);
    assert_eq!(reply.header("content-type"), "application/gzip");
    reply.body
}

#[track_caller]
fn refused(line: &Value, status: u16, detail: &str) {
    assert_eq!(line["error"]["status"], status, "{line}");
    assert!(line["error"]["detail"].as_str().unwrap().contains(detail), "{line}");
}

#[tokio::test]
async fn good_entries_are_loaded_and_bad_ones_reported() {
    let (_server, caller) = Server::with_slate().await;
    let link = |kind, to: &str| {
        let mut header = Header::new_ustar();
        header.set_path("link").unwrap();
        header.set_entry_type(kind);
        header.set_size(0);
        header.set_link_name(to).unwrap();
        header.set_cksum();
        header.as_bytes().to_vec()
    };
    let long = format!("long/{}.txt", "n".repeat(240));
    let mut named = entry(b"././@LongLink", EntryType::GNULongName, format!("{long}\0").as_bytes());
    named.extend(file("long/n", "long"));
    let mut sparse = entry(b"x", EntryType::XHeader, b"22 GNU.sparse.major=1\n");
    sparse.extend(file("sparse", ""));
    let cases: Vec<(Vec<u8>, u16, &str)> = vec![
        (entry(b"./", EntryType::Directory, b""), 200, "/"),
        (entry(b"./empty/", EntryType::Directory, b""), 201, "empty/"),
        (file("./a.md", "---\nn: 1\nbad: \"\\0\"\nz: null\n---\n# A\n"), 201, "a.md"),
        (file("broken.md", "---\nn: [\n---\n"), 201, "broken.md"),
        (named, 201, &long),
        (file("../up", ""), 422, "segment `.` or `..`"),
        (file("a/../../up", ""), 422, "segment `.` or `..`"),
        (file("/etc/passwd", ""), 422, "start with `/`"),
        (file("a\\b", ""), 422, "backslash"),
        (file("a//b", ""), 422, "empty segment"),
        (entry(b"\xff", EntryType::Regular, b""), 422, "not UTF-8"),
        (link(EntryType::Symlink, "/etc/passwd"), 422, "symbolic link"),
        (link(EntryType::Link, "a.md"), 422, "hard link"),
        (entry(b"dev", EntryType::Char, b""), 422, "device"),
        (entry(b"dev", EntryType::Block, b""), 422, "device"),
        (entry(b"pipe", EntryType::Fifo, b""), 422, "pipe"),
        (sparse, 422, "sparse"),
        (entry(b"odd", EntryType::new(b'Z'), b""), 422, "kind"),
        (file("a.md", "other"), 409, "before"),
        (file("a.md/below", ""), 409, "file"),
        (file("b.bin", "\0\u{1}"), 201, "b.bin"),
    ];
    let entries: Vec<Vec<u8>> = cases.iter().map(|(entry, ..)| entry.clone()).collect();
    let archive = gz(&tar(&entries));
    let (lines, end) = import(&caller, "K/import?front_matter=true", archive.clone()).await;
    assert_eq!(lines.len(), cases.len());
    for (place, (line, (_, status, what))) in lines.iter().zip(&cases).enumerate() {
        assert_eq!(line["entry"], place + 1, "{line}");
        match status {
            200 | 201 => {
                assert_eq!((&line["status"], &line["path"]), (&json!(status), &json!(what)), "{line}")
            }
            _ => refused(line, *status, what),
        }
    }
    assert_eq!(lines[2]["version"], 1);
    assert_eq!(lines[2]["null_metatags"], json!(["z"]));
    assert!(
        lines[2]["warnings"][0].as_str().unwrap().contains("line 3: the metatag \"bad\""),
        "{}",
        lines[2]
    );
    assert!(lines[3]["warnings"][0].as_str().unwrap().contains("line"), "{}", lines[3]);
    assert_eq!(
        (&end["new"], &end["failed"], &end["warned"], &end["complete"]),
        (&json!(4), &json!(15), &json!(2), &json!(true)),
        "{end}"
    );
    assert_eq!(caller.get("/v1/slates/K/metatags/a.md").await.ok(200), json!({"n": 1}));
    assert_eq!(caller.get(&format!("/v1/slates/K/files/{long}")).await.text(), "long");
    let versions = caller.get("/v1/slates/K/versions/b.bin").await.ok(200);
    assert_eq!(versions["items"][0]["source_modified_at"], "2023-11-14T22:13:20Z");
    let (again, end) = import(&caller, "K/import?front_matter=true", archive).await;
    assert_eq!((&end["new"], &end["changed"], &end["unchanged"]), (&json!(0), &json!(0), &json!(4)), "{end}");
    assert!(
        again
            .iter()
            .all(|line| line["error"].is_object() || line["version"].is_null() || line["version"] == 1)
    );
}

#[tokio::test]
async fn a_zip_is_loaded_below_a_folder() {
    let (_server, caller) = Server::with_slate().await;
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default();
    for name in ["good.txt", "é/ü.txt", "../up", "/abs", "secret"] {
        zip.start_file(name, options).unwrap();
        zip.write_all(b"contents").unwrap();
    }
    zip.start_file("damaged", options.compression_method(zip::CompressionMethod::Stored)).unwrap();
    zip.write_all(b"DAMAGED").unwrap();
    zip.add_directory("empty", options).unwrap();
    zip.add_symlink("link", "/etc/passwd", options).unwrap();
    let mut bytes = zip.finish().unwrap().into_inner();
    let at = |bytes: &[u8], what: &[u8]| bytes.windows(what.len()).position(|found| found == what).unwrap();
    let damaged = at(&bytes, b"DAMAGED");
    bytes[damaged] = b'd';
    // The flag of encryption, in the entry's own head and in the directory.
    let local = at(&bytes, b"secret") - 30;
    bytes[local + 6] |= 1;
    let central = bytes.windows(6).rposition(|found| found == b"secret").unwrap() - 46;
    bytes[central + 8] |= 1;
    let url = "/v1/slates/K/import?folder=into";
    let (lines, end) = told(&caller.post(url).body("application/zip", bytes.clone()).await);
    let paths: Vec<&str> = lines.iter().map(|line| line["path"].as_str().unwrap()).collect();
    assert_eq!(paths[..2], ["into/good.txt", "into/é/ü.txt"]);
    assert_eq!(
        (&lines[0]["status"], &lines[6]["status"], paths[6]),
        (&json!(201), &json!(201), "into/empty/")
    );
    refused(&lines[2], 422, "segment `.` or `..`");
    refused(&lines[3], 422, "start with `/`");
    refused(&lines[4], 422, "assword");
    refused(&lines[5], 422, "cannot be read");
    refused(&lines[7], 422, "symbolic link");
    assert_eq!((&end["new"], &end["failed"], &end["complete"]), (&json!(2), &json!(5), &json!(true)));
    assert_eq!(
        caller.get(&format!("/v1/slates/K/files/{}", in_url("into/é/ü.txt"))).await.text(),
        "contents"
    );
    let half = bytes[..bytes.len() / 2].to_vec();
    let (lines, end) = told(&caller.post(url).bytes(half).await);
    refused(&lines[0], 422, "ends early");
    assert_eq!((lines.len(), &end["complete"]), (1, &json!(false)));
}

#[tokio::test]
async fn what_came_before_the_end_stays() {
    let small = |config: &mut slatebase::config::Config| {
        config.archives.max_import_unpacked_bytes = 200_000;
        config.archives.max_import_bytes = 100_000;
        config.archives.max_import_entries = 50;
    };
    let server = Server::start_with(small).await;
    let caller = server.tenant("acme").await;
    for slate in ["Short", "Much", "Many", "K"] {
        caller.put(&format!("/v1/slates/{slate}")).await.expect(201);
    }
    let text: String = (0..4000).map(|n: u32| char::from(b'a' + (n * n % 23) as u8)).collect();
    let files: Vec<Vec<u8>> = (0..20).map(|n| file(&format!("f{n:02}"), &text)).collect();
    let whole = tar(&files);
    let (lines, end) = import(&caller, "Short/import", whole[..4608 * 7 + 600].to_vec()).await;
    assert_eq!((lines.len(), &lines[7]["entry"], &end["new"]), (8, &json!(8), &json!(7)), "{end}");
    refused(&lines[7], 422, "ends early");
    assert_eq!((&lines[7]["path"], &end["complete"]), (&json!("f07"), &json!(false)));
    let (_, end) = import(&caller, "Short/import", gz(&whole)).await;
    assert_eq!((&end["new"], &end["unchanged"], &end["complete"]), (&json!(13), &json!(7), &json!(true)));
    let mut cut = gz(&whole);
    cut.truncate(cut.len() - 4);
    let (lines, _) = import(&caller, "Short/import", cut).await;
    refused(lines.last().unwrap(), 422, "ends early");

    let zeros: Vec<Vec<u8>> = (0..40).map(|n| file(&format!("z{n}"), &"\0".repeat(20_000))).collect();
    let (lines, end) = import(&caller, "Much/import", gz(&tar(&zeros))).await;
    refused(lines.last().unwrap(), 413, "unpacks to more than");
    assert_eq!((&end["new"], &end["complete"]), (&json!(9), &json!(false)), "{end}");
    let many: Vec<Vec<u8>> = (0..60).map(|n| file(&format!("m{n}"), "")).collect();
    let (lines, end) = import(&caller, "Many/import", gz(&tar(&many))).await;
    refused(lines.last().unwrap(), 413, "50 entries");
    assert_eq!((lines.len(), &end["new"]), (51, &json!(50)));

    let url = "/v1/slates/K/import";
    let zero = vec![0; 100_001];
    caller.post(url).body("application/gzip", zero.clone()).await.problem(413, "body_too_large");
    let chunks = futures_util::stream::iter([Ok::<_, std::io::Error>(zero)]);
    let body = reqwest::Body::wrap_stream(chunks);
    caller.post(url).body("application/gzip", body).await.problem(413, "body_too_large");
    caller.post(url).body("application/gzip", "text").await.problem(415, "unsupported_media_type");
    caller.post(url).body("application/json", gz(&whole)).await.problem(415, "unsupported_media_type");
    caller
        .post("/v1/slates/K/import?folder=..")
        .body("application/gzip", gz(&whole))
        .await
        .problem(422, "invalid");
}

#[tokio::test]
async fn a_small_archive_that_unpacks_to_very_much_is_cut_off() {
    let (_server, caller) = Server::with_slate().await;
    let mut entries = Vec::new();
    for n in 0..20 {
        entries.push(entry(format!("z{n}").as_bytes(), EntryType::Regular, &vec![0; 4 << 20]));
    }
    let mut gz = GzEncoder::new(Vec::new(), Compression::best());
    gz.write_all(&tar(&entries)).unwrap();
    let (lines, end) = import(&caller, "K/import", gz.finish().unwrap()).await;
    refused(lines.last().unwrap(), 413, "unpacks to more than");
    assert_eq!((&end["new"], &end["complete"]), (&json!(15), &json!(false)), "{end}");
}

/// The entries of a tar, with the times and checksums of their heads taken away.
fn timeless(tar: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let (mut entries, mut at) = (Vec::new(), 0);
    while tar[at] != 0 {
        let size = Header::from_byte_slice(&tar[at..at + 512]).entry_size().unwrap() as usize;
        let mut head = tar[at..at + 512].to_vec();
        head[136..156].fill(0);
        entries.push((head, tar[at + 512..at + 512 + size].to_vec()));
        at += 512 + size.next_multiple_of(512);
    }
    entries
}

fn names() -> impl Strategy<Value = String> {
    let nasty = [
        "-rf",
        ".hidden",
        "a b",
        "ü",
        "日本語",
        "new\nline",
        "tab\t",
        "9 path=x",
        "a%2Fb",
        "\u{1F600}",
        "...",
    ];
    let fixed = proptest::sample::select(nasty.map(String::from).to_vec());
    prop_oneof![fixed, "[a-z]{1,8}\\.(md|txt|bin)", "[a-zé]{90,120}"]
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        proptest::num::f64::NORMAL.prop_map(Value::from),
        "[^\\x00]{0,12}".prop_map(Value::from),
        proptest::collection::vec("[^\\x00]{0,5}", 0..4).prop_map(Value::from),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        let members = proptest::collection::hash_map("[a-z\\n\"]{1,5}", inner.clone(), 0..3);
        prop_oneof![
            members.prop_map(|members| Value::Object(members.into_iter().collect())),
            proptest::collection::vec(inner, 0..3).prop_map(Value::from),
        ]
    })
}

fn files() -> impl Strategy<Value = Value> {
    let paths = proptest::collection::vec(names(), 1..4).prop_map(|names| names.join("/"));
    let contents = proptest::collection::vec(any::<u8>(), 0..2000);
    let tags = proptest::collection::hash_map("[^\\x00-\\x1f\\x7f-\\u{9f}]{1,8}", values(), 0..4);
    let authority = proptest::sample::select(vec![json!(null), json!("low"), json!("medium"), json!("high")]);
    let source = proptest::option::of(("[a-z:]{1,9}", 0i64..4_000_000_000));
    (paths, contents, tags, authority, any::<bool>(), source).prop_map(
        |(path, contents, tags, authority, sensitive, source)| {
            use base64::Engine;
            let content = base64::prelude::BASE64_STANDARD.encode(contents);
            let tags: serde_json::Map<String, Value> = tags.into_iter().collect();
            let modified =
                source.as_ref().map(|(_, at)| chrono::DateTime::from_timestamp(*at, 123_456_000).unwrap());
            json!({"path": path, "content_base64": content, "metatags": tags, "authority": authority,
                "sensitive": sensitive, "source_version": source.map(|(version, _)| version),
                "source_modified_at": modified})
        },
    )
}

#[tokio::test]
async fn an_export_is_restored_exactly() {
    let (server, caller) = Server::with_slate().await;
    let other = server.tenant("other").await;
    let mut runner = TestRunner::deterministic();
    let body: String =
        (0..400).map(|_| files().new_tree(&mut runner).unwrap().current().to_string() + "\n").collect();
    let loaded = caller.post("/v1/slates/K/files").body("application/x-ndjson", body).await.expect(200);
    let stored = loaded.text().lines().filter(|line| line.contains("\"status\":201")).count();
    assert!(stored > 300, "{}", loaded.text());
    let large = vec![7; 9 << 20];
    caller.put("/v1/slates/K/files/.slatebase/large").bytes(large.clone()).await.expect(201);
    caller.put("/v1/slates/K/folders/nothing/in/it").json(json!({"authority": "low"})).await.expect(201);
    caller.put("/v1/slates/K/folders/kept").json(json!({"sensitive": true})).await.expect(201);
    caller.put("/v1/slates/K/files/kept/away").bytes("secret").await.expect(201);
    // The types are fixed after the files were written, one of which is of another.
    caller
        .post("/v1/slates/K/files")
        .json(json!({"path": "old", "content": "", "metatags": {"n": "1"}}))
        .await
        .expect(201);
    let settings = json!({"description": "é\n", "authority": "high", "volatile": true, "max_age_seconds": 9,
        "retention_days": 3, "metatag_types": {"n": "number"}, "language": "english"});
    caller.put("/v1/slates/K").json(settings).await.expect(200);

    let first = export(&caller, "K/export?hidden=true").await;
    for (who, slate) in [(&caller, "Again"), (&other, "K")] {
        who.put(&format!("/v1/slates/{slate}")).await.expect(201);
        let (lines, end) = import(who, &format!("{slate}/import"), first.clone()).await;
        let failed: Vec<_> = lines.iter().filter(|line| line["error"].is_object()).collect();
        assert_eq!((&end["failed"], &end["complete"]), (&json!(0), &json!(true)), "{failed:?}");
        assert_eq!((&end["new"], &end["settings_restored"]), (&json!(stored + 3), &json!(true)));
        let second = export(who, &format!("{slate}/export?hidden=true")).await;
        assert!(timeless(&unpack(&first)) == timeless(&unpack(&second)), "{slate}");
        let (_, end) = import(who, &format!("{slate}/import"), first.clone()).await;
        assert_eq!(
            (&end["unchanged"], &end["failed"]),
            (&json!(stored + 2), &json!(1)),
            "the old file no longer may"
        );
    }
    assert_eq!(other.get("/v1/slates/K/files/.slatebase/large").await.body, large);
    other.get("/v1/slates/K/files/kept/away").await.problem(404, "not_found");
    other.get("/v1/slates/K/folders/nothing/in/it").await.expect(200);
    let slate = |caller: Caller| async move {
        let mut slate = caller.get("/v1/slates/K").await.ok(200);
        for time in ["created_at", "updated_at"] {
            slate[time].take();
        }
        slate
    };
    assert_eq!(slate(caller).await, slate(other).await);
}

#[tokio::test]
async fn what_is_kept_from_readers_stays_out_and_is_counted() {
    let (server, caller) = Server::with_slate().await;
    server.fill(&caller, "K", json!({"d/a": "one", "d/.env": "SECRET", "s/b": "SECRET", "e/c": "two"})).await;
    caller.put("/v1/slates/K/folders/s").json(json!({"sensitive": true})).await.expect(200);
    let reader = server.key("acme", json!({"scopes": ["read"]})).await;
    let tar = unpack(&export(&reader, "K/export").await);
    let text = String::from_utf8_lossy(&tar);
    assert!(
        text.contains("d/a") && !text.contains("SECRET") && !text.contains(".env") && !text.contains("s/\0")
    );
    assert!(text.contains(r#"SLATEBASE.end={"files":2,"folders":2,"left_out":2}"#), "{text}");
    reader.get("/v1/slates/K/export?hidden=true").await.problem(403, "forbidden");
    reader.get("/v1/slates/K/export?folder=s").await.problem(404, "not_found");
    reader.get("/v1/slates/K/export?folder=nope").await.problem(404, "not_found");
    let folder = export(&reader, "K/export?folder=d").await;
    caller.put("/v1/slates/Part").await.expect(201);
    let (lines, end) = import(&caller, "Part/import?folder=x", folder).await;
    assert_eq!((&lines[1]["path"], &end["new"]), (&json!("x/a"), &json!(1)), "{lines:?}");
    assert_eq!(end["settings_restored"], false);
    // An export that ends early is told, though as a tar it is whole.
    let whole = unpack(&export(&reader, "K/export").await);
    let cut = tar_without_last_entry(&whole);
    let (lines, end) = import(&caller, "Part/import?folder=y", gz(&cut)).await;
    refused(lines.last().unwrap(), 422, "export that ended early");
    assert_eq!((&end["new"], &end["complete"]), (&json!(2), &json!(false)));
}

fn tar_without_last_entry(whole: &[u8]) -> Vec<u8> {
    let entries = timeless(whole).len();
    let mut at = 0;
    for _ in 0..entries - 2 {
        let size = Header::from_byte_slice(&whole[at..at + 512]).entry_size().unwrap() as usize;
        at += 512 + size.next_multiple_of(512);
    }
    tar(&[whole[..at].to_vec()])
}

#[tokio::test]
async fn no_more_archives_are_taken_at_once_than_may_be() {
    let server = Server::start_with(|config| config.max_archives = 1).await;
    let caller = server.tenant("acme").await;
    caller.put("/v1/slates/K").await.expect(201);
    let held = server.app.archive_permits.clone().acquire_owned().await.unwrap();
    caller.get("/v1/slates/K/export").await.problem(503, "overloaded");
    caller.post("/v1/slates/K/import").body("application/gzip", gz(b"")).await.problem(503, "overloaded");
    drop(held);
    caller.get("/v1/slates/K/export").await.expect(200);
}
