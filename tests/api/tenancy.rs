//! The isolation matrix: every operation of the OpenAPI document, called by those who may not.
//!
//! Without a key or with a revoked one it is 401, without the scope 403. A thing of another tenant, or of a slate that the
//! key is not bound to, is 404, in the very bytes of a thing that never existed.

use serde_json::{Value, json};

use crate::support::{Caller, Reply, Server};

/// What an operation is about, and so what must be kept from whom.
#[derive(Debug, Clone, Copy, PartialEq)]
enum About {
    /// The service: open to everyone.
    Service,
    /// Tenants and their keys: the operator's.
    Operator,
    /// Something in a slate, or that the tenant has under a name.
    Slate,
    /// Something of the tenant's that belongs to no slate: others have their own.
    Tenant,
}

struct Operation {
    about: About,
    /// Each of these scopes is enough.
    scopes: &'static [&'static str],
    body: Value,
}

/// A new operation has to be entered here.
fn operation(id: &str) -> Operation {
    use About::{Operator, Service, Slate, Tenant};
    let of = |about, scopes, body| Operation { about, scopes, body };
    let reads = &["read", "retrieve"][..];
    let request_match = json!({"type": "object", "properties": {"files": {"type": "array"}}});
    match id {
        "get_docs" | "get_healthz" | "get_metrics" | "get_openapi" | "get_readyz" | "get_service" => {
            of(Service, &[], Value::Null)
        }
        "list_tenants" | "get_tenant" | "delete_tenant" | "list_keys" | "revoke_key" | "delete_key_alias" => {
            of(Operator, &[], Value::Null)
        }
        "put_key_alias" => of(Operator, &[], json!({"token": "fixed-token"})),
        "create_tenant" => of(Operator, &[], json!({"name": "new"})),
        "create_key" => of(Operator, &[], json!({"label": "new", "scopes": ["read"]})),
        "get_settings" => of(Tenant, &["admin"], Value::Null),
        "put_settings" => of(Tenant, &["admin"], json!({})),
        "list_slates" => of(Tenant, reads, Value::Null),
        "list_sessions" => of(Tenant, reads, Value::Null),
        "get_facets" => of(Slate, reads, Value::Null),
        "get_slate" | "get_root_folder" | "get_folder" | "get_metatags" | "list_versions" | "head_file" => {
            of(Slate, reads, Value::Null)
        }
        "get_file" | "export_slate" => of(Slate, &["read"], Value::Null),
        "import_slate" => of(Slate, &["write"], json!({})),
        "delete_slate" | "delete_folder" | "delete_file" => of(Slate, &["write"], Value::Null),
        "put_slate" | "put_folder" | "put_metatags" | "patch_metatags" => of(Slate, &["write"], json!({})),
        "put_file" => of(Slate, &["write"], json!({})),
        "patch_file" => of(Slate, &["write"], json!({"media_type": "text/plain"})),
        "move_folder" => of(Slate, &["write"], json!({"path": "elsewhere"})),
        "post_files" => of(Slate, &["write"], json!({"path": "new.md", "content": ""})),
        "list_corpora" | "list_routes" | "list_capabilities" => of(Tenant, reads, Value::Null),
        "get_corpus" | "get_route" | "find_route" | "get_capability" | "find_capability" => {
            of(Slate, reads, Value::Null)
        }
        "list_sources" => of(Tenant, &["admin"], Value::Null),
        "get_api_source" | "delete_api_source" | "get_database_source" | "delete_database_source" => {
            of(Slate, &["admin"], Value::Null)
        }
        "put_api_source" => of(Slate, &["admin"], json!({"base_url": "https://hush.example"})),
        "put_database_source" => {
            of(Slate, &["admin"], json!({"connection": {"host": "hush.example", "dbname": "d", "user": "u"}}))
        }
        "list_secrets" => of(Tenant, &["admin"], Value::Null),
        "put_secret" => of(Slate, &["admin"], json!({"value": "hushhush"})),
        "delete_secret" => of(Slate, &["admin"], Value::Null),
        "put_corpus" => of(Slate, &["admin"], json!({"url": "slate:{slate}/d", "status": "published"})),
        "search_collection" | "search_gateway" => {
            of(Slate, &["retrieve"], json!({"collection": "{corpus_id}", "goal": "hushhush"}))
        }
        "search_corpus" => of(Slate, &["retrieve"], json!({"goal": "hushhush"})),
        "call_tool" => of(Slate, &["retrieve"], json!({})),
        "put_route" | "put_capability" => of(Slate, &["admin"], json!({})),
        "delete_corpus" => of(Slate, &["admin"], Value::Null),
        "describe_retrieve" => of(Tenant, reads, Value::Null),
        // What another tenant has is a failure like any other, on record.
        "retrieve_target" => of(Tenant, &["retrieve"], json!({"target": "slate://Nope/d/a.md"})),
        "resolve_citation" => of(Slate, &["retrieve"], json!({"reference": "slate://{slate}/d/a.md@1"})),
        "check_citation" => {
            of(Slate, &["retrieve"], json!({"reference": "slate://{slate}/d/a.md@1", "quote": "a"}))
        }
        "query_slate" => of(Slate, &["retrieve"], json!({"request": {"glob": "*"}})),
        "create_session" => {
            let declaration = json!({"to": {"slate": "{slate}", "folder": ""}, "as": "D", "maxRounds": 1, "requestMatch": request_match});
            of(Slate, &["retrieve"], json!({"retrieve": declaration}))
        }
        "get_session"
        | "get_session_tool"
        | "get_prompt"
        | "list_rounds"
        | "list_session_provenance"
        | "get_provenance" => of(Slate, reads, Value::Null),
        "submit_round" => of(Slate, &["retrieve"], json!({"output": {"files": ["d/a.md"]}})),
        "forget_context" => of(Slate, &["retrieve"], json!({})),
        "get_run" | "watch_session" => of(Slate, reads, Value::Null),
        "run_session" => of(
            Slate,
            &["retrieve"],
            json!({"model": {"base_url": "https://llm.example.com/v1", "name": "m"}}),
        ),
        "cancel_session" | "delete_session" | "verify_session" => of(Slate, &["retrieve"], Value::Null),
        unknown => panic!("{unknown}: who may call it, and what must it keep from whom?"),
    }
}

/// Names to put into the paths and bodies of operations.
#[derive(Clone)]
struct Names {
    tenant: String,
    key: String,
    slate: String,
    session: String,
    record: String,
    /// Of a corpus, a route, a capability, and of a version of these.
    entry: String,
}

impl Names {
    fn fill(&self, id: &str, text: &str) -> String {
        let thing = if id == "get_provenance" { &self.record } else { &self.session };
        let path = if matches!(id, "get_folder" | "put_folder" | "move_folder" | "delete_folder") {
            "d"
        } else {
            "d/a.md"
        };
        let text = ["{corpus_id}", "{route_id}", "{route_version}", "{capability_id}", "{version}", "{name}"]
            .iter()
            .fold(text.to_owned(), |text, name| text.replace(name, &self.entry));
        (text
            .replace("{tenant}", &self.tenant)
            .replace("{key_id}", &self.key)
            .replace("{slate}", &self.slate))
        .replace("{gateway}", "any")
        .replace("{id}", thing)
        .replace("{path}", path)
    }

    fn unknown() -> Names {
        Names {
            tenant: "nope".into(),
            key: "999999".into(),
            slate: "Nope".into(),
            session: "01890000-0000-7000-8000-000000000000".into(),
            record: "01890000-0000-7000-8000-000000000000.1".into(),
            entry: "nope".into(),
        }
    }
}

struct Call {
    method: String,
    path: String,
    id: String,
}

fn calls(document: &Value) -> Vec<Call> {
    let mut calls = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let id = operation["operationId"].as_str().unwrap().to_owned();
            calls.push(Call { method: method.to_uppercase(), path: path.clone(), id });
        }
    }
    // What deletes comes last, and what it deletes is still there for all else.
    calls.sort_by_key(|call| call.method == "DELETE");
    calls
}

impl Call {
    async fn by(&self, caller: &Caller, names: &Names) -> Reply {
        let body = &operation(&self.id).body;
        let request = caller.request(&self.method, &names.fill(&self.id, &self.path));
        if body.is_null() {
            return request.await;
        }
        request.json(serde_json::from_str(&names.fill(&self.id, &body.to_string())).unwrap()).await
    }
}

/// A problem, less what names the request.
fn words(reply: &Reply) -> Value {
    if reply.body.is_empty() {
        return Value::Null;
    }
    let mut problem = reply.json();
    problem["instance"].take();
    problem["request_id"].take();
    problem
}

struct World {
    server: Server,
    names: Names,
    document: Value,
}

async fn world() -> World {
    let server = Server::start().await;
    let acme = server.tenant("acme").await;
    server
        .fill(&acme, "K", json!({"d/a.md": {"content": "hushhush", "metatags": {"hushtag": 1}}, "b.md": "b"}))
        .await;
    server.fill(&acme, "Open", json!({"b.md": "b"})).await;
    let names = Names { tenant: "acme".into(), key: "1".into(), slate: "K".into(), ..Names::unknown() };
    let create = calls_named("create_session");
    let opened = create.by(&acme, &names).await.ok(201);
    let session = opened["session_id"].as_str().unwrap().to_owned();
    let query = calls_named("query_slate").by(&acme, &names).await.ok(200);
    let record = query["items"][0]["provenance_id"].as_str().unwrap().to_owned();
    let document = acme.get("/openapi.json").await.ok(200);
    let names = Names { session, record, entry: "hushed".into(), ..names };
    for id in
        ["put_corpus", "put_route", "put_capability", "put_secret", "put_api_source", "put_database_source"]
    {
        calls_named(id).by(&acme, &names).await.expect(201);
    }
    World { server, names, document }
}

fn calls_named(id: &str) -> Call {
    let path = match id {
        "create_session" => "/v1/sessions",
        "query_slate" => "/v1/slates/{slate}/query",
        "put_api_source" => "/v1/sources/apis/{name}",
        "put_database_source" => "/v1/sources/databases/{name}",
        "put_secret" => "/v1/secrets/{name}",
        "put_corpus" => "/v1/catalog/corpora/{corpus_id}",
        "put_route" => "/v1/catalog/routes/{route_id}/{route_version}",
        "put_capability" => "/v1/catalog/capabilities/{capability_id}/{version}",
        _ => unreachable!(),
    };
    let method = if id.starts_with("put_") { "PUT" } else { "POST" };
    Call { method: method.into(), path: path.into(), id: id.into() }
}

#[tokio::test]
async fn no_key_and_a_revoked_key_are_401() {
    let World { server, names, document } = world().await;
    let revoked = server.key("acme", json!({"scopes": ["read", "write", "retrieve", "admin"]})).await;
    let key = revoked.token.clone().unwrap().split('_').nth(2).unwrap().to_owned();
    server.operator.delete(&format!("/v1/tenants/acme/keys/{key}")).await.expect(204);
    let wrong = revoked.with_token("slb_1_1_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA");
    for call in calls(&document) {
        if operation(&call.id).about == About::Service {
            assert_eq!(call.by(&revoked.anonymous(), &names).await.status, 200, "{}", call.id);
            continue;
        }
        let none = call.by(&revoked.anonymous(), &names).await;
        for caller in [&revoked, &wrong, &revoked.with_token("nonsense")] {
            let refused = call.by(caller, &names).await;
            assert_eq!((refused.status, none.status), (401, 401), "{}", call.id);
            assert_eq!(words(&refused), words(&none), "{}", call.id);
        }
    }
}

#[tokio::test]
async fn a_key_without_the_scope_is_403() {
    let World { server, names, document } = world().await;
    for call in calls(&document) {
        let Operation { about, scopes, .. } = operation(&call.id);
        let lacking: Vec<&str> = ["read", "write", "retrieve", "admin"]
            .into_iter()
            .filter(|scope| !scopes.contains(scope))
            .collect();
        let caller = match about {
            About::Service => continue,
            _ => server.key("acme", json!({"scopes": lacking})).await,
        };
        for names in [&names, &Names::unknown()] {
            assert_eq!(call.by(&caller, names).await.status, 403, "{}", call.id);
        }
        if about != About::Operator {
            assert_eq!(call.by(&server.operator, &names).await.status, 403, "{} by the operator", call.id);
            let enough = scopes.iter().map(|scope| json!([scope]));
            for scopes in enough {
                let caller = server.key("acme", json!({"scopes": scopes})).await;
                let status = call.by(&caller, &Names::unknown()).await.status;
                assert!(status != 401 && status != 403, "{} with {scopes}: {status}", call.id);
            }
        }
    }
}

/// What makes a thing of any name, in whoever's tenant it is called.
const MAKERS: &[&str] = &[
    "put_slate",
    "put_corpus",
    "put_route",
    "put_capability",
    "put_secret",
    "put_api_source",
    "put_database_source",
];

/// Whoever may not see a thing is told what they are told of a thing that never was; and no list shows it.
async fn sees_nothing(world: &World, caller: &Caller, own: &[&str]) {
    for call in calls(&world.document) {
        let about = operation(&call.id).about;
        match about {
            About::Service | About::Operator => continue,
            // Anyone may make a thing of any name, in their own tenant.
            _ if own.contains(&call.id.as_str()) => continue,
            About::Tenant => {
                let reply = call.by(caller, &world.names).await;
                assert!(reply.status < 300, "{}: {}", call.id, reply.text());
                for hidden in ["\"K\"", "hush", world.names.session.as_str()] {
                    assert!(!reply.text().contains(hidden), "{} shows {hidden}: {}", call.id, reply.text());
                }
            }
            About::Slate => {
                let foreign = call.by(caller, &world.names).await;
                let unknown = call.by(caller, &Names::unknown()).await;
                assert_eq!((foreign.status, unknown.status), (404, 404), "{}: {}", call.id, foreign.text());
                assert_eq!(words(&foreign), words(&unknown), "{}", call.id);
                assert_eq!(
                    foreign.headers.get("content-type"),
                    unknown.headers.get("content-type"),
                    "{}",
                    call.id
                );
            }
        }
    }
}

#[tokio::test]
async fn another_tenants_things_do_not_exist() {
    let world = world().await;
    let other = world.server.tenant("other").await;
    sees_nothing(&world, &other, MAKERS).await;
}

#[tokio::test]
async fn a_key_bound_to_another_slate_sees_no_other() {
    let world = world().await;
    let scopes = ["read", "write", "retrieve", "admin"];
    let bound = world.server.key("acme", json!({"scopes": scopes, "slates": ["Open"]})).await;
    // Sources, secrets, routes and capabilities are the tenant's, and lie in no slate.
    let named = [
        "get_route",
        "find_route",
        "put_route",
        "get_capability",
        "find_capability",
        "put_capability",
        "list_routes",
        "list_capabilities",
        "list_secrets",
        "put_secret",
        "delete_secret",
        "list_sources",
        "get_api_source",
        "put_api_source",
        "delete_api_source",
        "get_database_source",
        "put_database_source",
        "delete_database_source",
    ];
    sees_nothing(&world, &bound, &named).await;
    bound.get("/v1/slates/Open").await.expect(200);
    let slates = bound.get("/v1/slates").await.ok(200);
    assert_eq!(slates["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn nothing_of_the_refused_calls_changed_anything() {
    let world = world().await;
    let acme = world.server.key("acme", json!({"scopes": ["read", "retrieve"]})).await;
    let before = acme.get("/v1/slates/K/folders/d").await.ok(200);
    let other = world.server.tenant("other").await;
    sees_nothing(&world, &other, MAKERS).await;
    assert_eq!(acme.get("/v1/slates/K/folders/d").await.ok(200), before);
    let session = acme.get(&format!("/v1/sessions/{}", world.names.session)).await.ok(200);
    assert_eq!((&session["status"], &session["round"]), (&json!("open"), &json!(0)));
}

/// What the REST contract lists, by method and path.
const CONTRACT: &[&str] = &[
    "DELETE /v1/catalog/corpora/{corpus_id}",
    "DELETE /v1/secrets/{name}",
    "DELETE /v1/sessions/{id}",
    "DELETE /v1/slates/{slate}",
    "DELETE /v1/slates/{slate}/files/{path}",
    "DELETE /v1/slates/{slate}/folders/{path}",
    "DELETE /v1/sources/apis/{name}",
    "DELETE /v1/sources/databases/{name}",
    "DELETE /v1/tenants/{tenant}",
    "DELETE /v1/tenants/{tenant}/keys/{key_id}",
    "DELETE /v1/tenants/{tenant}/keys/{key_id}/alias",
    "GET /",
    "GET /docs",
    "GET /healthz",
    "GET /metrics",
    "GET /openapi.json",
    "GET /readyz",
    "GET /v1/capabilities/retrieve",
    "GET /v1/capabilities/{capability_id}/versions/{version}",
    "GET /v1/catalog/capabilities",
    "GET /v1/catalog/capabilities/{capability_id}/{version}",
    "GET /v1/catalog/corpora",
    "GET /v1/catalog/corpora/{corpus_id}",
    "GET /v1/catalog/routes",
    "GET /v1/catalog/routes/{route_id}",
    "GET /v1/catalog/routes/{route_id}/{route_version}",
    "GET /v1/provenance/{id}",
    "GET /v1/secrets",
    "GET /v1/sessions",
    "GET /v1/sessions/{id}",
    "GET /v1/sessions/{id}/events",
    "GET /v1/sessions/{id}/prompt",
    "GET /v1/sessions/{id}/provenance",
    "GET /v1/sessions/{id}/rounds",
    "GET /v1/sessions/{id}/run",
    "GET /v1/sessions/{id}/tool",
    "GET /v1/settings",
    "GET /v1/slates",
    "GET /v1/slates/{slate}",
    "GET /v1/slates/{slate}/export",
    "GET /v1/slates/{slate}/facets",
    "GET /v1/slates/{slate}/files/{path}",
    "GET /v1/slates/{slate}/folders",
    "GET /v1/slates/{slate}/folders/{path}",
    "GET /v1/slates/{slate}/metatags/{path}",
    "GET /v1/slates/{slate}/versions/{path}",
    "GET /v1/sources",
    "GET /v1/sources/apis/{name}",
    "GET /v1/sources/databases/{name}",
    "GET /v1/tenants",
    "GET /v1/tenants/{tenant}",
    "GET /v1/tenants/{tenant}/keys",
    "HEAD /v1/slates/{slate}/files/{path}",
    "PATCH /v1/slates/{slate}/files/{path}",
    "PATCH /v1/slates/{slate}/folders/{path}",
    "PATCH /v1/slates/{slate}/metatags/{path}",
    "POST /corpora/{corpus_id}/search",
    "POST /v1/citations/check",
    "POST /v1/citations/resolve",
    "POST /v1/retrieve",
    "POST /v1/search",
    "POST /v1/search/{gateway}",
    "POST /v1/sessions",
    "POST /v1/sessions/{id}/cancel",
    "POST /v1/sessions/{id}/forget",
    "POST /v1/sessions/{id}/rounds",
    "POST /v1/sessions/{id}/run",
    "POST /v1/sessions/{id}/tools/{capability_id}",
    "POST /v1/sessions/{id}/verify",
    "POST /v1/slates/{slate}/files",
    "POST /v1/slates/{slate}/import",
    "POST /v1/slates/{slate}/query",
    "POST /v1/tenants",
    "POST /v1/tenants/{tenant}/keys",
    "PUT /v1/catalog/capabilities/{capability_id}/{version}",
    "PUT /v1/catalog/corpora/{corpus_id}",
    "PUT /v1/catalog/routes/{route_id}/{route_version}",
    "PUT /v1/secrets/{name}",
    "PUT /v1/settings",
    "PUT /v1/slates/{slate}",
    "PUT /v1/slates/{slate}/files/{path}",
    "PUT /v1/slates/{slate}/folders/{path}",
    "PUT /v1/slates/{slate}/metatags/{path}",
    "PUT /v1/sources/apis/{name}",
    "PUT /v1/sources/databases/{name}",
    "PUT /v1/tenants/{tenant}/keys/{key_id}/alias",
];

#[test]
fn the_document_holds_every_operation_of_the_contract() {
    let document: Value = serde_json::from_str(slatebase::http::openapi::text()).unwrap();
    let mut found: Vec<String> =
        calls(&document).iter().map(|call| format!("{} {}", call.method, call.path)).collect();
    found.sort();
    assert_eq!(found, CONTRACT);
}
