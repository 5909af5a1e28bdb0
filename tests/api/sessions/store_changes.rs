//! What happens to a session when the store changes under it.

use serde_json::json;

use super::{FILES, Session, brief, knowledge, put};
use crate::support::Server;

#[tokio::test]
async fn when_the_folder_is_gone_everything_reads_not_found() {
    let server = Server::start().await;
    let caller = knowledge(&server, FILES).await;
    let session = Session::open(&caller, json!({"maxRounds": 3})).await;
    let first = session.files(&["core.md"]).await;
    caller.delete("/v1/slates/Knowledge/folders/docs?recursive=true").await.expect(204);
    let output = json!({"files": ["core.md", "../x"], "subfolders": ["research", "."], "glob": "*",
        "metatag": {"name": "x"}});
    let round = session.round(output.clone()).await;
    let missing = ["core.md ! not_found", "../x ! not_found", "research ! not_found", ". ! not_found"];
    assert_eq!((brief(&round), &round["total"]), (missing.map(String::from).to_vec(), &json!(0)));
    assert_eq!(round["items"][1]["hint"]["reason"], "invalid_path");
    assert_eq!(session.submit(json!({"output": {"files": ["core.md"]}, "round": 1})).await.ok(200), first);
    assert_eq!(session.forget(json!({"paths": ["core.md"]})).await["forgotten"], 0);

    // Another folder at the path is what the session is bound to from then on.
    put(&caller, "core.md", "another").await;
    let round = session.files(&["core.md"]).await;
    assert_eq!(
        (brief(&round), &round["status"]),
        (vec!["core.md = another".to_owned()], &json!("exhausted"))
    );
    session.round(json!("the end")).await;
    assert_eq!(session.verify().await["valid"], true);
}

#[tokio::test]
async fn when_the_folder_moves_the_session_stays_where_it_was_bound() {
    let server = Server::start().await;
    let caller = knowledge(&server, FILES).await;
    let session = Session::open(&caller, json!({})).await;
    let first = session.files(&["core.md"]).await;
    caller.patch("/v1/slates/Knowledge/folders/docs").json(json!({"path": "papers"})).await.expect(200);
    assert_eq!(brief(&session.files(&["core.md"]).await), ["core.md ! not_found"]);
    assert_eq!(session.submit(json!({"output": {"files": ["core.md"]}, "round": 1})).await.ok(200), first);
    caller.patch("/v1/slates/Knowledge/folders/papers").json(json!({"path": "docs"})).await.expect(200);
    assert_eq!(brief(&session.files(&["core.md"]).await), ["core.md ! already_in_context"]);
}

#[tokio::test]
async fn when_the_slate_is_gone_the_session_still_ends_by_its_own_rules() {
    let server = Server::start().await;
    let caller = knowledge(&server, FILES).await;
    let session = Session::open(&caller, json!({"maxRounds": 2})).await;
    session.files(&["core.md"]).await;
    caller.delete("/v1/slates/Knowledge").await.expect(204);
    let round = session.round(json!({"files": ["core.md"], "glob": "*"})).await;
    assert_eq!(
        (brief(&round), &round["next"]),
        (vec!["core.md ! not_found".to_owned()], &json!("final_llm_call"))
    );
    assert!(
        session.prompt().await["prompt"].as_str().unwrap().contains("\ncore\n"),
        "versions outlive their slate"
    );
    assert_eq!(session.round(json!("the end")).await["status"], "answered");
    assert_eq!(session.verify().await["valid"], true);
}

#[tokio::test]
async fn what_was_purged_reads_gone_and_the_rest_of_the_round_is_as_it_was() {
    let server = Server::start().await;
    let caller = knowledge(&server, FILES).await;
    let session = Session::open(&caller, json!({})).await;
    let first = session.files(&["core.md", "faq.md"]).await;
    caller.delete("/v1/slates/Knowledge/files/docs/core.md?purge=true").await.expect(204);
    let again = session.submit(json!({"output": {"files": ["core.md", "faq.md"]}, "round": 1})).await.ok(200);
    let mut expected = first.clone();
    expected["items"][0]["content"] = json!("(gone)");
    assert_eq!(again, expected, "all but the content");
    let prompt = session.prompt().await;
    assert!(prompt["prompt"].as_str().unwrap().contains("status=\"fetched\">\n(gone)\n</document>"));
    session.forget(json!({"paths": ["faq.md"]})).await;
    assert!(session.prompt().await["prompt"].as_str().unwrap().contains("path=\"core.md\" version=\"1\""));
    assert_eq!(session.verify().await["valid"], true);
}

#[tokio::test]
async fn what_is_kept_from_readers_by_now_is_shown_nowhere() {
    let server = Server::start().await;
    let caller = knowledge(&server, &[("core.md", "core"), ("secret.md", "the secret")]).await;
    let session = Session::open(&caller, json!({})).await;
    session.files(&["secret.md"]).await;
    let path = "/v1/slates/Knowledge/files/docs/secret.md";
    caller.patch(path).json(json!({"sensitive": true})).await.expect(200);
    let round = session.round(json!({"files": ["secret.md", "secrets.md"], "glob": "*"})).await;
    assert_eq!(brief(&round), ["secret.md ! not_found", "secrets.md ! not_found", "core.md = core"]);
    assert_eq!(round["items"][1]["hint"]["nearest"], json!([]), "no hint names it");
    let again = session.submit(json!({"output": {"files": ["secret.md"]}, "round": 1})).await.ok(200);
    assert_eq!(brief(&again), ["secret.md = (gone)"]);
    for path in ["/prompt", "/rounds"] {
        assert!(!caller.get(&session.path(path)).await.expect(200).text().contains("the secret"));
    }
}
