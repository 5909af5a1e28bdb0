//! Our own gateway: the search of corpora in slates, and passages in step with their files.

use serde_json::{Value, json};

use crate::support::{Caller, Server};

/// A tenant with the slate `K`, in which these files are, and a published corpus `c` at `url`.
async fn corpus(files: Value, url: &str) -> (Server, Caller) {
    let (server, caller) = Server::with_slate().await;
    server.fill(&caller, "K", files).await;
    publish(&caller, "c", url).await;
    (server, caller)
}

async fn publish(caller: &Caller, id: &str, url: &str) {
    let row = json!({"url": url, "status": "published"});
    let reply = caller.put(&format!("/v1/catalog/corpora/{id}")).json(row).await;
    assert!(reply.status < 300, "{}", reply.text());
}

async fn search(caller: &Caller, goal: Value) -> Vec<Value> {
    let found = caller.post("/v1/search").json(json!({"collection": "c", "goal": goal})).await.ok(200);
    found["chunks"].as_array().unwrap().clone()
}

async fn ids(caller: &Caller, goal: impl Into<Value>) -> Vec<String> {
    search(caller, goal.into()).await.iter().map(|chunk| chunk["id"].as_str().unwrap().to_owned()).collect()
}

fn policies() -> Value {
    json!({
        "policies/refunds.md": "# Refunds\n\nThe refund window is 30 days.\n\nAfter that a manager decides.\n",
        "policies/charges.md": "# Charges\n\nCustomers are charged $42 for paper statements.\n",
        "policies/deep/hours.txt": "We open at nine.\n\nWe close at six.\n",
        "other/refunds.md": "Not among the policies: refund, refund, refund.",
    })
}

#[tokio::test]
async fn whole_questions_are_answered_by_any_of_their_words() {
    let (server, caller) = corpus(policies(), "slate:K/policies").await;
    let chunks = search(&caller, json!({"question": "Why was I charged $42?"})).await;
    assert_eq!(
        chunks[0],
        json!({"id": "charges.md#1", "text": "# Charges\n\nCustomers are charged $42 for paper statements.",
            "path": "policies/charges.md", "version": 1, "score": chunks[0]["score"],
            "citation": "slate://K/policies/charges.md@1#L1-3"})
    );
    assert!(chunks[0]["score"].as_f64().unwrap() > 0.0);
    for (goal, first) in [
        (json!({"topic": "refund window"}), "refunds.md#1"),
        (json!({"a": [{"b": "when do you"}, {"c": "open"}]}), "deep/hours.txt#1"),
        (json!("the manager, the the the"), "refunds.md#1"),
        (json!("it's a \\ ' manager & | ! ( <-> :* question"), "refunds.md#1"),
        (json!("nine\u{0}manager nine"), "deep/hours.txt#1"),
    ] {
        assert_eq!(ids(&caller, goal.clone()).await.first().map(String::as_str), Some(first), "{goal}");
    }
    server.check_store();
}

#[tokio::test]
async fn what_ranks_nothing_gives_the_first_passages_in_order() {
    let (_server, caller) = corpus(policies(), "slate:K/policies").await;
    let all = ["charges.md#1", "deep/hours.txt#1", "refunds.md#1"];
    for goal in [json!({}), json!(""), json!({"n": 42}), json!("??? $$$"), json!("xyzzy plugh")] {
        assert_eq!(ids(&caller, goal.clone()).await, all, "{goal}");
    }
    let found = caller.post("/v1/search/c").await.ok(200);
    assert_eq!(found["chunks"].as_array().unwrap().len(), 3);
    assert_eq!(found["chunks"][0]["score"], 0.0);
}

#[tokio::test]
async fn the_three_ways_to_name_a_corpus() {
    let (server, caller) = corpus(policies(), "slate:K/policies").await;
    caller
        .put("/v1/catalog/corpora/named")
        .json(json!({"url": "slate:K/other", "status": "published", "collection": "index-7"}))
        .await
        .expect(201);
    caller.put("/v1/catalog/corpora/draft").json(json!({"url": "slate:K/policies"})).await.expect(201);
    caller
        .put("/v1/catalog/corpora/far")
        .json(json!({"url": "https://gateway.example/", "status": "published"}))
        .await
        .expect(201);
    let goal = json!({"goal": "refund"});
    let direct = caller.post("/corpora/c/search").json(goal.clone()).await.ok(200)["chunks"].clone();
    assert_eq!(direct[0]["id"], "refunds.md#1");
    for (path, body) in [
        ("/v1/search", json!({"collection": "c", "goal": "refund"})),
        ("/v1/search/c", goal.clone()),
        ("/v1/search/assistant", json!({"collection": "c", "goal": "refund"})),
        ("/corpora/none/search", json!({"collection": "c", "goal": "refund"})),
    ] {
        assert_eq!(caller.post(path).json(body).await.ok(200)["chunks"], direct, "{path}");
    }
    let other =
        caller.post("/v1/search").json(json!({"collection": "index-7", "goal": "refund"})).await.ok(200);
    assert_eq!(other["chunks"][0]["path"], "other/refunds.md");
    for name in ["draft", "far", "none", "", "a\u{0}"] {
        caller.post("/v1/search").json(json!({"collection": name})).await.problem(404, "not_found");
    }
    caller.post("/v1/search").json(json!({"goal": "x"})).await.invalid_at("/collection");
    caller.post("/v1/search/c").json(json!({"goal": ["x"]})).await.invalid_at("/goal");
    caller.post("/v1/search/c").json(json!({"limit": 3})).await.invalid_at("/limit");
    caller.get("/corpora/c/search").await.problem(405, "method_not_allowed");
    caller.anonymous().post("/corpora/c/search").json(goal.clone()).await.problem(401, "unauthorized");
    let bound = server.key("acme", json!({"scopes": ["retrieve"], "slates": ["L"]})).await;
    for path in ["/corpora/c/search", "/v1/search/index-7"] {
        bound.post(path).json(goal.clone()).await.problem(404, "not_found");
    }
}

#[tokio::test]
async fn results_are_the_best_twenty_or_as_many_as_the_corpus_says() {
    let files: serde_json::Map<_, _> =
        (0..30).map(|i| (format!("p/{i:02}.txt"), json!(format!("word number {i}")))).collect();
    let (_server, caller) = corpus(files.into(), "slate:K/p").await;
    let first: Vec<String> = (0..20).map(|i| format!("{i:02}.txt#1")).collect();
    assert_eq!(ids(&caller, "word").await, first);
    assert_eq!(ids(&caller, "word word").await, first);
    assert_eq!(ids(&caller, json!({})).await, first);
    let best = ids(&caller, "which word is number 25 or 7").await;
    assert_eq!(best[..3], ["07.txt#1", "25.txt#1", "00.txt#1"]);
    assert_eq!(best, ids(&caller, "which word is number 25 or 7").await);
    let few = json!({"url": "slate:K/p", "status": "published", "max_chunks": 2});
    caller.put("/v1/catalog/corpora/c").json(few).await.expect(200);
    assert_eq!(ids(&caller, "word").await, first[..2]);
}

#[tokio::test]
async fn rare_words_and_titles_count_for_most() {
    let filler: serde_json::Map<_, _> = (0..60)
        .map(|i| {
            (
                format!("z/{i:02}.md"),
                json!(format!(
                    "# Note {i}\n\nHow does the fee of the market get to the one who pays the fee?\n"
                )),
            )
        })
        .collect();
    let mut files = json!({
        "a.md": "---\ntitle: Tips\n---\n## Abstract\n\nWhat a sender adds.\n\n## More\n\nMiners keep it.\n",
        "b.md": "# Other\n\nA tip, once, and how does the fee of the market get to the one who pays?\n",
    });
    files.as_object_mut().unwrap().extend(filler);
    let (_server, caller) = corpus(files, "slate:K").await;
    let found = ids(&caller, "how does a tip get to the one who pays the fee").await;
    assert_eq!(found[0], "b.md#1");
    assert_eq!(ids(&caller, "tips").await, ["a.md#1", "a.md#2"]);
}

#[tokio::test]
async fn a_search_is_on_record_with_the_lines_of_each_passage() {
    let (server, caller) = corpus(policies(), "slate:K/policies").await;
    let found = caller.post("/v1/search/c").json(json!({"goal": "refund window"})).await.ok(200);
    let record = found["record_id"].as_str().unwrap();
    let item = caller.get(&format!("/v1/provenance/{record}.1")).await.ok(200);
    assert_eq!((&item["kind"], &item["status"]), (&json!("search"), &json!("fetched")));
    assert_eq!(item["citation"]["reference"], found["chunks"][0]["citation"]);
    assert_eq!(item["extraction"]["applied_filters"], json!({"lines": "1-5"}));
    assert_eq!(item["extraction"]["returned_size"], found["chunks"][0]["text"].as_str().unwrap().len());
    let items =
        caller.get(&format!("/v1/provenance/{record}")).await.ok(200)["items"].as_array().unwrap().len();
    assert_eq!(items, found["chunks"].as_array().unwrap().len());
    let bound = server.key("acme", json!({"scopes": ["retrieve"], "slates": ["L"]})).await;
    bound.get(&format!("/v1/provenance/{record}")).await.problem(404, "not_found");
    publish(&caller, "hollow", "slate:K/nothing").await;
    assert_eq!(caller.post("/v1/search/hollow").await.ok(200), json!({"chunks": []}));
}

#[tokio::test]
async fn passages_follow_their_files() {
    let (server, caller) = corpus(policies(), "slate:K/policies").await;
    let file = |path: &str| format!("/v1/slates/K/files/{path}");
    let folder = |path: &str| format!("/v1/slates/K/folders/{path}");
    let versions =
        |chunks: Vec<Value>| chunks.iter().map(|c| c["version"].as_i64().unwrap()).collect::<Vec<_>>();

    caller
        .put(&file("policies/refunds.md"))
        .body("text/markdown", "# Refunds\n\nNow zebras.\n")
        .await
        .expect(200);
    assert_eq!(ids(&caller, "manager").await.len(), 3, "nothing has it any more");
    assert_eq!(versions(search(&caller, json!("zebras")).await), [2]);
    caller.put(&file("policies/new.txt")).body("text/plain", "Quokkas.").await.expect(201);
    assert_eq!(ids(&caller, "quokkas").await, ["new.txt#1"]);
    caller.put(&file("policies/binary.bin")).bytes(&b"quokkas\0"[..]).await.expect(201);
    caller.put(&file("policies/blank.txt")).body("text/plain", " \n\n").await.expect(201);
    assert_eq!(ids(&caller, "quokkas").await, ["new.txt#1"]);
    server.check_store();

    // Renamed in place, moved out, moved in.
    caller
        .patch(&file("policies/new.txt"))
        .json(json!({"path": "policies/deep/newer.txt"}))
        .await
        .expect(200);
    assert_eq!(ids(&caller, "quokkas").await, ["deep/newer.txt#1"]);
    caller.patch(&file("policies/deep/newer.txt")).json(json!({"path": "other/newer.txt"})).await.expect(200);
    assert!(!ids(&caller, "quokkas").await.contains(&"deep/newer.txt#1".to_owned()));
    caller.patch(&file("other/newer.txt")).json(json!({"path": "policies/newer.txt"})).await.expect(200);
    assert_eq!(ids(&caller, "quokkas").await, ["newer.txt#1"]);
    server.check_store();

    // Folders, the same.
    caller.patch(&folder("policies/deep")).json(json!({"path": "policies/deeper"})).await.expect(200);
    assert_eq!(ids(&caller, "nine").await, ["deeper/hours.txt#1"]);
    server.check_store();
    caller.patch(&folder("policies/deeper")).json(json!({"path": "outside"})).await.expect(200);
    assert_ne!(ids(&caller, "nine").await[0], "deeper/hours.txt#1");
    server.check_store();
    caller.patch(&folder("outside")).json(json!({"path": "policies/inside"})).await.expect(200);
    assert_eq!(ids(&caller, "nine").await, ["inside/hours.txt#1"]);
    server.check_store();

    // Another media type is cut otherwise; a file that is deleted has none, and neither has a folder.
    caller.patch(&file("policies/refunds.md")).json(json!({"media_type": "text/plain"})).await.expect(200);
    server.check_store();
    caller.delete(&file("policies/newer.txt")).await.expect(204);
    caller.delete(&folder("policies/inside?recursive=true")).await.expect(204);
    assert_eq!(ids(&caller, "quokkas nine").await, ["charges.md#1", "refunds.md#1"]);
    server.check_store();
    let bulk = "{\"path\":\"policies/x.txt\",\"content\":\"wombats\"}\n{\"path\":\"policies/x.txt\",\"content\":\"numbats\"}\n";
    caller.post("/v1/slates/K/files").body("application/x-ndjson", bulk).await.expect(200);
    assert_eq!(versions(search(&caller, json!("numbats")).await), [2]);
    server.check_store();
    caller.delete(&file("policies/x.txt?purge=true")).await.expect(204);
    server.check_store();

    // A slate that is made anew has its corpora at once.
    caller.delete("/v1/slates/K").await.expect(204);
    assert_eq!(search(&caller, json!({})).await, [Value::Null; 0]);
    server.check_store();
    caller.put("/v1/slates/K").await.expect(201);
    caller.put(&file("policies/again.txt")).body("text/plain", "again").await.expect(201);
    assert_eq!(ids(&caller, "again").await, ["again.txt#1"]);
    server.check_store();
}

#[tokio::test]
async fn what_is_kept_from_readers_is_in_no_search() {
    let (server, caller) = corpus(policies(), "slate:K/policies").await;
    let hidden = |shown: bool| {
        let (server, caller) = (&server, &caller);
        async move {
            server.check_store();
            let found = ids(caller, "nine").await;
            assert_eq!(found.contains(&"deep/hours.txt#1".to_owned()), shown, "{found:?}");
        }
    };
    hidden(true).await;
    let file = "/v1/slates/K/files/policies/deep/hours.txt";
    for sensitive in [true, false] {
        caller.patch(file).json(json!({"sensitive": sensitive})).await.expect(200);
        hidden(!sensitive).await;
    }
    for sensitive in [true, false] {
        caller
            .put("/v1/slates/K/folders/policies/deep")
            .json(json!({"sensitive": sensitive}))
            .await
            .expect(200);
        hidden(!sensitive).await;
    }
    for globs in [json!(["**/deep/**"]), json!([])] {
        caller.put("/v1/settings").json(json!({"deny_globs": globs})).await.expect(200);
        hidden(globs == json!([])).await;
    }
    let write = json!({"path": "policies/secret.txt", "content": "nine secrets", "sensitive": true});
    caller.post("/v1/slates/K/files").json(write).await.expect(201);
    assert_eq!(ids(&caller, "secrets nine").await, ["deep/hours.txt#1"]);
    server.check_store();
}

#[tokio::test]
async fn passages_are_kept_for_published_corpora_alone() {
    let (server, caller) = corpus(policies(), "slate:K/policies/deep").await;
    publish(&caller, "whole", "slate:K").await;
    publish(&caller, "twin", "slate:K/policies/deep/").await;
    server.check_store();
    let goal = json!({"goal": "nine"});
    assert_eq!(
        caller.post("/v1/search/whole").json(goal.clone()).await.ok(200)["chunks"][0]["id"],
        "policies/deep/hours.txt#1"
    );
    caller
        .put("/v1/slates/K/files/policies/deep/b.txt")
        .body("text/plain", "nine and nine")
        .await
        .expect(201);
    server.check_store();
    caller.delete("/v1/catalog/corpora/twin").await.expect(204);
    server.check_store();
    assert_eq!(ids(&caller, "nine").await, ["b.txt#1", "hours.txt#1"]);
    caller.put("/v1/catalog/corpora/c").json(json!({"url": "slate:K/policies/deep"})).await.expect(200);
    server.check_store();
    publish(&caller, "whole", "slate:K/other").await;
    server.check_store();
    caller
        .put("/v1/catalog/corpora/whole")
        .json(json!({"url": "slate:K/other", "status": "deprecated"}))
        .await
        .expect(200);
    server.check_store();
    // A corpus may come before its slate.
    publish(&caller, "early", "slate:L/a").await;
    caller.put("/v1/slates/L").await.expect(201);
    caller.put("/v1/slates/L/files/a/x.txt").body("text/plain", "nine").await.expect(201);
    assert_eq!(caller.post("/v1/search/early").json(goal).await.ok(200)["chunks"][0]["id"], "x.txt#1");
    server.check_store();
}

#[tokio::test]
async fn words_are_told_by_the_slates_language() {
    let (server, caller) = corpus(policies(), "slate:K/policies").await;
    assert_ne!(ids(&caller, "refunding").await[0], "refunds.md#1");
    let set = |language: &str| caller.put("/v1/slates/K").json(json!({"language": language}));
    assert_eq!(set("english").await.ok(200)["language"], "english");
    assert_eq!(ids(&caller, "refunding").await, ["refunds.md#1"]);
    caller
        .put("/v1/slates/K/files/policies/n.txt")
        .body("text/plain", "Decisions of managers")
        .await
        .expect(201);
    assert_eq!(ids(&caller, "manage").await.len(), 2);
    // Only stop words: there is nothing to rank.
    assert_eq!(ids(&caller, "who are you").await.len(), 4);
    set("simple").await.expect(200);
    assert_eq!(ids(&caller, "managers").await, ["n.txt#1"]);
    for wrong in ["klingon", "English", "", "pg_catalog.english", "a\u{0}"] {
        set(wrong).await.invalid_at("/language");
    }
    server.check_store();
}

#[tokio::test]
async fn writers_and_publishers_at_once_leave_no_file_out() {
    let (server, caller) = Server::with_slate().await;
    for round in 0..4 {
        let writes = (0..12).map(|i| {
            caller
                .put(&format!("/v1/slates/K/files/p/{round}/{i}.txt"))
                .body("text/plain", format!("file {i}"))
        });
        let status = if round % 2 == 0 { "published" } else { "draft" };
        let publish = caller.put("/v1/catalog/corpora/c").json(json!({"url": "slate:K/p", "status": status}));
        for reply in crate::support::at_once(writes.chain([publish])).await {
            assert!(reply.status < 300, "{}", reply.text());
        }
        server.check_store();
    }
}
