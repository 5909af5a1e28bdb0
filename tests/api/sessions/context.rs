//! What is in context is not given again, until it is forgotten or, where that is asked for, has changed.

use serde_json::json;

use super::{FILES, Session, brief, knowledge, put};
use crate::support::Server;

#[tokio::test]
async fn what_was_given_is_not_given_again_by_any_mode() {
    let server = Server::start().await;
    let caller = knowledge(&server, FILES).await;
    let session = Session::open(&caller, json!({"recursive": true})).await;
    assert_eq!(
        brief(&session.files(&["core.md", "late.md"]).await),
        ["core.md = core", "late.md ! not_found"]
    );
    put(&caller, "late.md", "late").await;
    let round = session.round(json!({"files": ["core.md", "late.md"], "glob": "*.md"})).await;
    let expected = [
        "core.md ! already_in_context",
        "late.md = late",
        "faq.md = faq",
        "glossary.md = glossary",
        "research/report.md = report",
    ];
    assert_eq!(brief(&round), expected);
    let core = &round["items"][0];
    assert_eq!((&core["content"], &core["changed"]), (&json!("(already in context)"), &json!(false)));
    assert_eq!(core["citation"], "slate://Knowledge/docs/core.md@1");
    let round = session.round(json!({"glob": "*.md"})).await;
    assert!(brief(&round).iter().all(|item| item.ends_with("already_in_context")), "{round}");
}

#[tokio::test]
async fn a_file_that_changed_or_moved_says_so() {
    let server = Server::start().await;
    let caller = knowledge(&server, FILES).await;
    let session = Session::open(&caller, json!({})).await;
    let fresh = Session::open(&caller, json!({"refetchChanged": true})).await;
    for session in [&session, &fresh] {
        session.files(&["core.md", "faq.md"]).await;
    }
    put(&caller, "core.md", "core two").await;
    for (from, to) in [("core.md", "kernel.md"), ("faq.md", "questions.md")] {
        let path = format!("/v1/slates/Knowledge/files/docs/{from}");
        caller.patch(&path).json(json!({"path": format!("docs/{to}")})).await.expect(200);
    }
    let round = session.files(&["kernel.md", "questions.md", "core.md"]).await;
    let expected =
        ["kernel.md ! already_in_context", "questions.md ! already_in_context", "core.md ! not_found"];
    assert_eq!(brief(&round), expected);
    let (kernel, questions) = (&round["items"][0], &round["items"][1]);
    assert_eq!((&kernel["changed"], &kernel["version"]), (&json!(true), &json!(1)));
    assert!(kernel["head_version"].as_i64() > Some(1), "{kernel}");
    // What is in context is what is cited: it had another path then.
    assert_eq!(kernel["citation"], "slate://Knowledge/docs/core.md@1");
    assert_eq!((&questions["changed"], questions.get("head_version")), (&json!(false), None));

    let round = fresh.files(&["kernel.md", "questions.md"]).await;
    assert_eq!(brief(&round), ["kernel.md = core two", "questions.md ! already_in_context"]);
    assert_eq!(brief(&fresh.files(&["kernel.md"]).await), ["kernel.md ! already_in_context"]);
    put(&caller, "kernel.md", "core").await;
    let round = fresh.files(&["kernel.md"]).await;
    assert_eq!(brief(&round), ["kernel.md = core"]);
    assert_eq!(fresh.get().await["context"]["files"], 2);
    let prompt = fresh.prompt().await;
    assert_eq!(prompt["prompt"].as_str().unwrap().matches("\ncore\n").count(), 2);
    // Asked for again, rounds are as they were.
    assert_eq!(fresh.submit(json!({"output": {"files": ["kernel.md"]}, "round": 4})).await.ok(200), round);
    for (session, rounds) in [(&session, 2), (&fresh, 4)] {
        let verified = session.verify().await;
        assert_eq!((&verified["valid"], &verified["records"]), (&json!(true), &json!(rounds)));
    }
}

#[tokio::test]
async fn all_is_given_again_in_a_new_epoch() {
    let server = Server::start().await;
    let caller = knowledge(&server, FILES).await;
    let session = Session::open(&caller, json!({})).await;
    session.files(&["core.md", "faq.md", "nope.md"]).await;
    assert_eq!(caller.post(&session.path("/forget")).await.ok(200), json!({"epoch": 2, "forgotten": 2}));
    let now = session.get().await;
    assert_eq!((&now["round"], &now["epoch"], &now["shown_bytes"]), (&json!(1), &json!(2), &json!(7)));
    assert_eq!(now["context"], json!({"files": 0, "items": []}));
    assert_eq!(session.prompt().await["prompt"], "## Docs\n");
    let round = session.files(&["core.md"]).await;
    assert_eq!((brief(&round), &round["epoch"]), (vec!["core.md = core".to_owned()], &json!(2)));
    assert_eq!(session.get().await["shown_bytes"], 11, "bytes are not given back");
    // The first round is still answered as it was.
    let first = session
        .submit(json!({"output": {"files": ["core.md", "faq.md", "nope.md"]}, "round": 1}))
        .await
        .ok(200);
    assert_eq!(brief(&first), ["core.md = core", "faq.md = faq", "nope.md ! not_found"]);
    assert_eq!(first["epoch"], 1);
}

#[tokio::test]
async fn what_is_not_named_is_carried_into_the_new_epoch() {
    let server = Server::start().await;
    let caller = knowledge(&server, FILES).await;
    let session = Session::open(&caller, json!({})).await;
    session.files(&["core.md", "faq.md"]).await;
    session.files(&["glossary.md", "core.md", "nope.md"]).await;
    let path = "/v1/slates/Knowledge/files/docs/core.md";
    caller.patch(path).json(json!({"path": "docs/kernel.md"})).await.expect(200);
    // By its current path alone.
    assert_eq!(session.forget(json!({"paths": ["core.md"]})).await, json!({"epoch": 2, "forgotten": 0}));
    let named = json!({"paths": ["kernel.md", "kernel.md", "research/report.md", "/x", ".."]});
    assert_eq!(session.forget(named).await, json!({"epoch": 3, "forgotten": 1}));
    assert_eq!(session.forget(json!({"paths": []})).await, json!({"epoch": 4, "forgotten": 0}));
    assert_eq!(session.get().await["context"]["files"], 2);
    let round = session.files(&["kernel.md", "faq.md", "glossary.md"]).await;
    let expected = ["kernel.md = core", "faq.md ! already_in_context", "glossary.md ! already_in_context"];
    assert_eq!(brief(&round), expected);
    let prompt = session.prompt().await;
    let documents: Vec<&str> =
        prompt["prompt"].as_str().unwrap().lines().filter(|l| l.starts_with("<document")).collect();
    let fetched = |path: &str, version: u32| {
        format!("<document path=\"{path}\" version=\"{version}\" status=\"fetched\">")
    };
    let version = round["items"][0]["version"].as_u64().unwrap() as u32;
    let mut expected = vec![fetched("faq.md", 1), fetched("glossary.md", 1), fetched("kernel.md", version)];
    for path in ["faq.md", "glossary.md"] {
        expected.push(format!("<document path=\"{path}\" version=\"1\" status=\"already_in_context\">"));
    }
    assert_eq!(documents, expected);

    let forget = |body| caller.post(&session.path("/forget")).json(body);
    forget(json!({"paths": vec!["a"; 1001]})).await.invalid_at("/paths");
    forget(json!({"paths": "a"})).await.invalid_at("/paths");
    forget(json!({"path": []})).await.invalid_at("/path");
    caller
        .post(&session.path("/forget"))
        .header("if-match", "\"x\"")
        .await
        .problem(412, "precondition_failed");
    assert_eq!(session.get().await["epoch"], 4);
}
