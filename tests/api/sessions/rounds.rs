//! What a round is, and asking for it again.

use serde_json::{Value, json};

use super::{FILES, Session, brief, knowledge};
use crate::support::Server;

#[tokio::test]
async fn an_item_says_what_it_is_and_where_it_came_from() {
    let server = Server::start().await;
    let caller = knowledge(&server, FILES).await;
    let session = Session::open(&caller, json!({})).await;
    let round = session
        .round(json!({"files": ["core.md", "cure.md"], "subfolders": ["research"], "glob": "c*"}))
        .await;
    let items = &round["items"];
    let record = items[0]["provenance_id"].as_str().unwrap().strip_suffix(".1").unwrap().to_owned();
    let core = json!({"path": "core.md", "status": "fetched", "content": "core", "size": 4, "version": 1,
        "sha256": "bb0c33da9ddf0f66b10b1ba30a5d1a7f30ea0a9c3f2b1c5b1ec9b5c4a0a5ae2d", "media_type": "text/markdown",
        "matched_by": ["files", "glob"], "citation": "slate://Knowledge/docs/core.md@1"});
    for (member, value) in core.as_object().unwrap() {
        if member != "sha256" {
            assert_eq!(&items[0][member], value, "{member}");
        }
    }
    assert_eq!(items[0]["sha256"].as_str().unwrap().len(), 64);
    assert_eq!(items[1]["status"], "not_found");
    assert_eq!(
        (&items[1]["content"], &items[1]["hint"]["reason"]),
        (&json!("(not found)"), &json!("no_such_file"))
    );
    assert_eq!(items[1]["hint"]["nearest"], json!(["core.md"]));
    assert_eq!(items[2]["content"], json!([{"name": "report.md", "size": 6}]));
    for n in 1..=3 {
        let id = format!("{record}.{n}");
        assert_eq!(items[n - 1]["provenance_id"], id);
        caller.get(&format!("/v1/provenance/{id}")).await.expect(200);
    }
    assert_eq!(items.as_array().unwrap().len(), 3);
    assert_eq!((&round["truncated"], &round["total"]), (&json!(false), &json!(1)));
    assert_eq!(round["omitted"], json!({"files": 0, "bytes": 0}));
}

#[tokio::test]
async fn a_round_again_is_answered_as_the_first_time() {
    let server = Server::start().await;
    let caller = knowledge(&server, FILES).await;
    let session = Session::open(&caller, json!({"maxRounds": 2})).await;
    let keyed = |key: &str, body: Value| {
        caller.post(&session.path("/rounds")).header("idempotency-key", key).json(body)
    };
    let first = json!({"output": {"files": ["core.md", "nope.md"], "x": 1}});
    let one = keyed("k1", first.clone()).await.ok(200);
    let two = session.round(json!({"files": ["core.md"], "glob": "[", "subfolders": ["research"]})).await;
    assert_eq!((&two["status"], &two["next"]), (&json!("exhausted"), &json!("final_llm_call")));
    assert_eq!(two["errors"][0]["mode"], "glob");
    // The listing is given again as it was.
    super::put(&caller, "research/new.md", "new").await;
    let answer = session.round(json!({"files": ["faq.md"]})).await;
    assert_eq!((&answer["answer"], &answer["forced"]), (&json!({"files": ["faq.md"]}), &json!(true)));
    assert_eq!((answer.get("reason"), brief(&answer)), (None, vec![]));

    assert_eq!(keyed("k1", first.clone()).await.ok(200), one);
    assert_eq!(keyed("k1", json!({"output": first["output"], "round": 1})).await.ok(200), one);
    let mut numbered = first.clone();
    numbered["round"] = json!(1);
    assert_eq!(session.submit(numbered).await.ok(200), one);
    assert_eq!(
        session
            .submit(
                json!({"output": {"subfolders": ["research"], "glob": "[", "files": ["core.md"]}, "round": 2})
            )
            .await
            .ok(200),
        two
    );
    assert_eq!(session.submit(json!({"output": {"files": ["faq.md"]}, "round": 3})).await.ok(200), answer);

    keyed("k1", json!({"output": {"files": ["faq.md"]}})).await.problem(422, "idempotency_mismatch");
    keyed("k1", json!({"output": first["output"], "round": 2})).await.problem(422, "idempotency_mismatch");
    session.submit(json!({"output": "other", "round": 1})).await.problem(409, "round_conflict");
    session.submit(json!({"output": "other", "round": 4})).await.problem(409, "session_finished");
    session.submit(json!({"output": "other"})).await.problem(409, "session_finished");
    keyed("k9", json!({"output": "other"})).await.problem(409, "session_finished");

    let rounds = session.rounds().await;
    for (round, first) in rounds.iter().zip([&one, &two, &answer]) {
        let mut round = round.clone();
        assert!(round.as_object_mut().unwrap().remove("output").is_some());
        assert_eq!(&round, first);
    }
    assert_eq!(rounds.len(), 3);
    assert_eq!(rounds[0]["ignored"], json!(["x"]));
}

#[tokio::test]
async fn only_the_next_round_can_be_taken() {
    let server = Server::start().await;
    let caller = knowledge(&server, FILES).await;
    let session = Session::open(&caller, json!({})).await;
    for round in [0, 2, 101, u32::MAX] {
        let body = json!({"output": {"files": ["core.md"]}, "round": round});
        session.submit(body).await.problem(409, "round_conflict");
    }
    for round in [json!(-1), json!(1.5), json!("1"), json!(1u64 << 32)] {
        session.submit(json!({"output": 1, "round": round})).await.invalid_at("/round");
    }
    session.submit(json!({})).await.invalid_at("");
    session.submit(json!({"output": 1, "other": 1})).await.invalid_at("/other");
    assert_eq!(session.get().await["round"], 0);
    assert_eq!(session.submit(json!({"output": {"files": []}, "round": 1})).await.ok(200)["round"], 1);
}

#[tokio::test]
async fn an_answer_is_kept_exactly_as_it_was_submitted() {
    let server = Server::start().await;
    let caller = knowledge(&server, FILES).await;
    for answer in [
        json!("text with \u{0} and \"quotes\"\n"),
        json!(null),
        json!(false),
        json!(18446744073709551615u64),
        json!(-0.1),
        json!(0.1 + 0.2),
        json!({"b": [1, {"\u{0}": "\u{0}"}], "a": null}),
        json!("𝄞 e\u{301}"),
    ] {
        let session = Session::open(&caller, json!({})).await;
        let round = session.round(answer.clone()).await;
        assert_eq!((round.get("answer"), &round["forced"]), (Some(&answer), &json!(false)));
        let text = caller.get(&session.path("")).await.expect(200);
        assert_eq!(text.json().get("answer"), Some(&answer));
        assert!(text.text().contains(&format!("\"answer\":{answer}")), "the members keep their order");
        assert_eq!(session.submit(json!({"output": answer, "round": 1})).await.ok(200), round);
        assert_eq!(session.rounds().await[0]["output"], answer);
    }
}

#[tokio::test]
async fn nul_characters_are_kept_wherever_json_may_hold_them() {
    let server = Server::start().await;
    let caller = knowledge(&server, FILES).await;
    let retrieve = super::declaration(json!({}));
    let body = json!({"retrieve": retrieve, "fields": {"Q": "a\u{0}b"}, "goal": {"\u{0}": "\u{0}"}});
    let opened = caller.post("/v1/sessions").json(body).await.ok(201);
    assert_eq!(opened["goal"], json!({"\u{0}": "\u{0}"}));
    let session = Session { caller: caller.clone(), id: opened["session_id"].as_str().unwrap().into() };
    let output = json!({"files": ["a\u{0}b", "core.md"], "subfolders": ["\u{0}"], "glob": "\u{0}", "\u{0}": 1,
        "metatag": {"name": "\u{0}", "contains": "\u{0}"}});
    let round = session.round(output.clone()).await;
    assert_eq!(brief(&round), ["a\u{0}b ! not_found", "core.md = core", "\u{0} ! not_found"]);
    assert_eq!(round["ignored"], json!(["\u{0}"]));
    assert_eq!(round["errors"].as_array().unwrap().len(), 2);
    let mut numbered = json!({"output": output});
    numbered["round"] = json!(1);
    assert_eq!(session.submit(numbered).await.ok(200), round);
    assert_eq!(session.rounds().await[0]["output"], output);
    let prompt = session.prompt().await;
    let prompt = prompt["prompt"].as_str().unwrap();
    assert!(prompt.starts_with("## Q\na\u{0}b\n\n## Docs\n<document path=\"a\\u0000b\""), "{prompt}");
    let forgotten = session.forget(json!({"paths": ["\u{0}", "../x", "", "nope.md", "core.md"]})).await;
    assert_eq!(forgotten, json!({"epoch": 2, "forgotten": 1}));
    let records = caller.get(&session.path("/provenance")).await.ok(200);
    assert_eq!(records["items"].as_array().unwrap().len(), 3);
    assert_eq!(session.verify().await["valid"], true);
    session.round(json!("\u{0}")).await;
    assert_eq!(session.get().await["answer"], "\u{0}");
}

#[tokio::test]
async fn rounds_are_listed_in_pages() {
    let server = Server::start().await;
    let caller = knowledge(&server, FILES).await;
    let session = Session::open(&caller, json!({"maxRounds": 6})).await;
    for _ in 0..5 {
        session.files(&["core.md"]).await;
    }
    // So are the records of what they gave: a page may end within a round.
    session.files(&["core.md", "faq.md"]).await;
    let (mut given, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = caller.get(&session.path(&format!("/provenance?limit=3{cursor}"))).await.ok(200);
        let items = page["items"].as_array().unwrap();
        given.extend(items.iter().map(|item| (item["round"].clone(), item["retrieved"]["target"].clone())));
        let Some(next) = page["next_cursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    let mut expected: Vec<_> = (1..=6).map(|round| (json!(round), json!("docs/core.md"))).collect();
    expected.push((json!(6), json!("docs/faq.md")));
    assert_eq!(given, expected);
    caller.get(&session.path("/provenance?cursor=x")).await.invalid_at("/cursor");

    let (mut numbers, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = caller.get(&session.path(&format!("/rounds?limit=2{cursor}"))).await.ok(200);
        assert!(page["items"].as_array().unwrap().len() <= 2);
        numbers
            .extend(page["items"].as_array().unwrap().iter().map(|round| round["round"].as_u64().unwrap()));
        let Some(next) = page["next_cursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(numbers, [1, 2, 3, 4, 5, 6]);
}

#[tokio::test]
async fn a_large_page_of_rounds_ends_early() {
    let server = Server::start().await;
    let caller = knowledge(&server, &[]).await;
    let large = "x".repeat(9 << 20);
    for name in ["a", "b", "c"] {
        let path = format!("/v1/slates/Knowledge/files/docs/{name}.md");
        caller.put(&path).body("text/markdown", large.clone()).await.expect(201);
    }
    let session = Session::open(&caller, json!({"limits": {"maxTotalBytes": 64 << 20}})).await;
    for name in ["a.md", "b.md", "c.md"] {
        assert_eq!(session.files(&[name]).await["items"][0]["content"].as_str().unwrap().len(), large.len());
    }
    let page = caller.get(&session.path("/rounds")).await.ok(200);
    assert_eq!(page["items"].as_array().unwrap().len(), 2);
    let cursor = page["next_cursor"].as_str().unwrap();
    let page = caller.get(&session.path(&format!("/rounds?cursor={cursor}"))).await.ok(200);
    assert_eq!((&page["items"][0]["round"], &page["next_cursor"]), (&json!(3), &Value::Null));
}

#[tokio::test]
async fn a_binary_file_is_described() {
    let server = Server::start().await;
    let caller = knowledge(&server, FILES).await;
    caller
        .put("/v1/slates/Knowledge/files/docs/logo.png")
        .body("image/png", vec![0xffu8, 0, 1])
        .await
        .expect(201);
    let session = Session::open(&caller, json!({})).await;
    let item = session.files(&["logo.png"]).await["items"][0].clone();
    assert_eq!((&item["status"], &item["size"]), (&json!("fetched"), &json!(3)));
    assert_eq!(item["content"], "(binary file: image/png, 3 bytes)");
    assert!(
        session.prompt().await["prompt"].as_str().unwrap().contains("\n(binary file: image/png, 3 bytes)\n")
    );
}

#[tokio::test]
async fn the_prompt_of_a_session_at_each_of_its_turns() {
    let server = Server::start().await;
    let caller = knowledge(&server, FILES).await;
    let session = Session::open(&caller, json!({"maxRounds": 1})).await;
    let turn = |prompt: &Value| (prompt["round"].as_u64().unwrap(), prompt["final"].as_bool().unwrap());
    let prompt = session.prompt().await;
    assert_eq!((turn(&prompt), &prompt["prompt"]), ((1, false), &json!("## Docs\n")));
    session.files(&["core.md"]).await;
    let prompt = session.prompt().await;
    assert_eq!(turn(&prompt), (2, true));
    let expected = "## Docs\n<document path=\"core.md\" version=\"1\" status=\"fetched\">\ncore\n</document>\n\n\
                    Retrieval budget exhausted. Produce your final answer now.";
    assert_eq!(prompt["prompt"], expected);
    session.round(json!("answer")).await;
    assert_eq!(session.prompt().await, prompt, "the prompt that the answer was made from");
    let early = Session::open(&caller, json!({"maxRounds": 1})).await;
    early.round(json!("answer")).await;
    let prompt = early.prompt().await;
    assert_eq!((turn(&prompt), &prompt["prompt"]), ((1, false), &json!("## Docs\n")));
}
