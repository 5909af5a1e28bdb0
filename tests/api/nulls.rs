//! Null is absent wherever a member may be left out, and an integer may be written `5.0`, whichever operation it is.

use serde_json::{Value, json};

use crate::support::Server;

#[tokio::test]
async fn members_that_are_null_are_as_if_they_were_not_there() {
    let (server, acme) = Server::with_slate().await;
    server.fill(&acme, "K", json!({"docs/a.md": "# A\n\ntext\n"})).await;
    // What is left out takes its default.
    let slate = json!({"description": null, "authority": null, "volatile": null, "max_age_seconds": null,
        "retention_days": null, "metatag_types": {"owner": null, "size": "number"}, "language": null});
    let slate = acme.put("/v1/slates/K").json(slate).await.ok(200);
    assert_eq!((&slate["retention_days"], &slate["metatag_types"]), (&json!(30), &json!({"size": "number"})));
    acme.put("/v1/slates/K").json(json!({"retention_days": 7.0})).await.ok(200);
    let settings = json!({"default_slate": null, "deny_globs": null, "session_retention_days": 9.0,
        "max_concurrent_runs": null, "max_rounds_per_day": 5.0});
    let settings = acme.put("/v1/settings").json(settings).await.ok(200);
    assert_eq!(
        (&settings["session_retention_days"], &settings["max_rounds_per_day"]),
        (&json!(9), &json!(5))
    );
    let file = json!({"path": "docs/b.md", "content": "b", "content_base64": null, "media_type": null,
        "metatags": null, "authority": null, "sensitive": null, "source_modified_at": null, "source_version": null});
    acme.post("/v1/slates/K/files").json(file.clone()).await.expect(201);
    let bulk =
        acme.post("/v1/slates/K/files").body("application/x-ndjson", file.to_string()).await.expect(200);
    assert!(bulk.text().contains("\"status\":200"), "{}", bulk.text());
    acme.put("/v1/slates/K/folders/docs")
        .json(json!({"authority": null, "sensitive": null}))
        .await
        .expect(200);
    acme.patch("/v1/slates/K/files/docs/b.md")
        .json(json!({"path": null, "media_type": "text/plain", "sensitive": null}))
        .await
        .expect(200);
    let key = json!({"label": "x", "scopes": ["read"], "slates": null, "expires_at": null});
    server.operator.post("/v1/tenants/acme/keys").json(key).await.expect(201);
    let corpus = json!({"url": "slate:K/docs", "status": "published", "display_name": null, "max_chunks": 3.0,
        "timeout_seconds": null, "auth": null, "collection": null, "corpus_id": null});
    acme.put("/v1/catalog/corpora/c").json(corpus).await.expect(201);
    acme.post("/v1/search/c").json(json!({"collection": null, "goal": null})).await.expect(200);
    let route = json!({"route_id": null, "route_version": 1.0, "retrieval": null, "tools": null, "prompt": null, "status": null});
    acme.put("/v1/catalog/routes/r/1").json(route).await.expect(201);
    let capability = json!({"capability_id": null, "version": null, "display_name": null, "input_schema": null,
        "output_schema": null, "invoke": {"method": null, "url": null, "auth": null}, "status": "published"});
    acme.put("/v1/catalog/capabilities/t/1").json(capability).await.expect(201);
    let api = json!({"base_url": "https://a.example", "authority": null, "volatile": null, "max_age_seconds": 5.0, "auth": null});
    acme.put("/v1/sources/apis/a").json(api).await.expect(201);
    let asked = json!({"target": "slate://K/docs/a.md", "source": null, "format": null,
        "constraints": {"lines": null, "sections": null, "max_bytes": 5.0, "version": null, "slate": null}});
    let given = acme.post("/v1/retrieve").json(asked).await.ok(200);
    assert_eq!(given["retrieved"]["data"], "# A\n\n", "{given}");
    let asked = json!({"reference": "slate://K/docs/a.md@1", "quote": "text", "session_id": null});
    acme.post("/v1/citations/check").json(asked).await.expect(200);
}

#[tokio::test]
async fn sessions_take_nulls_from_authors_in_json_and_in_yaml() {
    let (server, acme) = Server::with_slate().await;
    server.fill(&acme, "K", json!({"a.md": "a"})).await;
    let yaml = "retrieve:\n  to: { slate: K, folder: ~ }\n  as: Docs\n  maxRounds: 2.0\n  recursive: null\n  limits: ~\n  \
                refetchChanged: ~\n  instructions: ~\n  requestMatch: { properties: { files: {}, glob: {} } }\n\
                fields: ~\ngoal: ~\nroute: ~\n";
    let opened = acme.post("/v1/sessions").body("application/yaml", yaml).await.ok(201);
    let session = format!("/v1/sessions/{}", opened["session_id"].as_str().unwrap());
    assert_eq!(acme.get(&session).await.ok(200)["retrieve"]["maxRounds"], 2);
    let round = acme
        .post(&format!("{session}/rounds"))
        .json(json!({"output": {"files": null, "glob": "*"}, "round": 1.0}))
        .await
        .ok(200);
    assert_eq!((&round["round"], &round["items"][0]["path"]), (&json!(1), &json!("a.md")));
    acme.post(&format!("{session}/forget")).json(json!({"paths": null})).await.expect(200);
    // Where any JSON is taken, null is what was put out.
    let done =
        acme.post(&format!("{session}/rounds")).json(json!({"output": null, "round": null})).await.ok(200);
    assert_eq!(done["decision"], "answer");
}

#[tokio::test]
async fn what_may_not_be_left_out_is_required_and_null_keeps_its_meaning() {
    let (server, acme) = Server::with_slate().await;
    server.fill(&acme, "K", json!({"a.md": {"content": "a", "metatags": {"x": 1, "y": 2}}})).await;
    let required = |problem: Value| assert_eq!(problem["errors"][0]["detail"], "is required", "{problem}");
    required(acme.post("/v1/slates/K/query").json(json!({"request": null})).await.invalid_at("/request"));
    required(acme.post("/v1/sessions").json(json!({"retrieve": null})).await.invalid_at("/retrieve"));
    required(acme.post("/v1/retrieve").json(json!({"target": null})).await.invalid_at("/target"));
    required(acme.put("/v1/catalog/corpora/c").json(json!({"url": null})).await.invalid_at("/url"));
    required(acme.put("/v1/secrets/s").json(json!({"value": null})).await.invalid_at("/value"));
    required(server.operator.post("/v1/tenants").json(json!({"name": null})).await.invalid_at("/name"));
    let nameless = json!({"request": {"metatag": {"name": null}}});
    required(acme.post("/v1/slates/K/query").json(nameless).await.invalid_at("/request/metatag/name"));
    acme.post("/v1/slates/K/query")
        .json(json!({"request": {"glob": "*"}, "limit": 1.5}))
        .await
        .invalid_at("/limit");
    acme.post("/v1/slates/K/query")
        .json(json!({"request": {"glob": "*"}, "nope": null}))
        .await
        .invalid_at("/nope");
    // Metatags by RFC 7396, and files' own authority by what their PATCH says.
    let tags = "/v1/slates/K/metatags/a.md";
    acme.put(tags).json(json!({"x": null})).await.expect(422);
    acme.patch(tags).json(json!({"x": null, "z": 3.0})).await.expect(200);
    assert_eq!(acme.get(tags).await.ok(200), json!({"y": 2, "z": 3.0}));
    let file = json!({"path": "a.md", "content": "a", "metatags": {"y": null, "w": true}});
    let written = acme.post("/v1/slates/K/files").json(file).await.ok(200);
    assert!(written.to_string().contains("\"y\""), "{written}");
    assert_eq!(acme.get(tags).await.ok(200), json!({"w": true}));
}
