//! How much a round gives, and all rounds together.

use serde_json::{Value, json};

use super::{Session, brief, knowledge};
use crate::support::Server;

const FILES: &[(&str, &str)] =
    &[("a.md", "aaaa"), ("b.md", "bbbbbb"), ("c.md", "cc"), ("d.md", "d"), ("e.md", "eeeeeeee")];

fn omitted(round: &Value) -> (bool, i64, i64) {
    let number = |member: &str| round["omitted"][member].as_i64().unwrap();
    (round["truncated"].as_bool().unwrap(), number("files"), number("bytes"))
}

#[tokio::test]
async fn files_past_the_number_are_listed_and_can_be_asked_for_next() {
    let server = Server::start().await;
    let caller = knowledge(&server, FILES).await;
    let session = Session::open(&caller, json!({"limits": {"maxFilesPerRound": 2}})).await;
    let round = session.round(json!({"glob": "*.md"})).await;
    let expected = ["a.md = aaaa", "b.md = bbbbbb", "c.md ! omitted", "d.md ! omitted", "e.md ! omitted"];
    assert_eq!((brief(&round), omitted(&round)), (expected.map(String::from).to_vec(), (true, 3, 11)));
    assert_eq!(round["total"], 5);
    let item = &round["items"][2];
    assert_eq!(
        (&item["content"], &item["size"], &item["version"]),
        (&json!("(omitted: budget)"), &json!(2), &json!(1))
    );
    let round = session.round(json!({"files": ["e.md", "c.md"], "glob": "[ab].md"})).await;
    let expected = ["e.md = eeeeeeee", "c.md = cc", "a.md ! already_in_context", "b.md ! already_in_context"];
    assert_eq!((brief(&round), omitted(&round)), (expected.map(String::from).to_vec(), (false, 0, 0)));
    let prompt = session.prompt().await;
    assert!(prompt["prompt"].as_str().unwrap().contains("status=\"omitted\">\n(omitted: budget)\n"));
}

#[tokio::test]
async fn bytes_of_a_round_are_bounded_but_no_file_is_out_of_reach() {
    let server = Server::start().await;
    let caller = knowledge(&server, FILES).await;
    let session = Session::open(&caller, json!({"limits": {"maxBytesPerRound": 7}})).await;
    // A file that does not fit is left out; a smaller one after it may fit.
    let round = session.round(json!({"glob": "*.md"})).await;
    let expected = ["a.md = aaaa", "b.md ! omitted", "c.md = cc", "d.md = d", "e.md ! omitted"];
    assert_eq!((brief(&round), omitted(&round)), (expected.map(String::from).to_vec(), (true, 2, 14)));
    let round = session.files(&["a.md", "e.md", "b.md"]).await;
    assert_eq!(brief(&round), ["a.md ! already_in_context", "e.md = eeeeeeee", "b.md ! omitted"]);
}

#[tokio::test]
async fn nothing_passes_the_bytes_of_all_rounds() {
    let server = Server::start().await;
    let caller = knowledge(&server, FILES).await;
    let session = Session::open(&caller, json!({"limits": {"maxTotalBytes": 9}})).await;
    assert_eq!(brief(&session.files(&["a.md"]).await), ["a.md = aaaa"]);
    session.forget(json!({})).await;
    let round = session.files(&["e.md", "b.md", "a.md"]).await;
    assert_eq!(brief(&round), ["e.md ! omitted", "b.md ! omitted", "a.md = aaaa"]);
    let round = session.files(&["c.md", "d.md", "b.md"]).await;
    assert_eq!(brief(&round), ["c.md ! omitted", "d.md = d", "b.md ! omitted"]);
    assert_eq!(session.get().await["shown_bytes"], 9);
}

#[tokio::test]
async fn a_round_shows_a_thousand_items_and_counts_the_rest() {
    let server = Server::start().await;
    let caller = knowledge(&server, &[]).await;
    let lines: String =
        (0..1203).map(|n| format!("{{\"path\":\"docs/f{n:04}.md\",\"content\":\"12\"}}\n")).collect();
    caller.post("/v1/slates/Knowledge/files").body("application/x-ndjson", lines).await.expect(200);
    let session = Session::open(&caller, json!({"limits": {"maxFilesPerRound": 1000}})).await;
    let round = session.round(json!({"glob": "*", "files": ["nope.md"]})).await;
    assert_eq!((round["items"].as_array().unwrap().len(), omitted(&round)), (1000, (true, 204, 408)));
    assert_eq!((&round["total"], &round["items"][999]["path"]), (&json!(1203), &json!("f0998.md")));
    assert_eq!(session.get().await["context"]["files"], 999);
    let round = session.round(json!({"glob": "f1*"})).await;
    assert_eq!(round["items"].as_array().unwrap().len(), 203);
    assert_eq!(omitted(&round), (false, 0, 0));
}
