//! Plays an operation of the API document, and looks at what the database was asked.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::recorder::Recorder;
use crate::shapes::Places;
use crate::support::{Caller, Reply, Server};

/// What a call sends.
#[derive(Debug, Default)]
pub enum Body {
    #[default]
    None,
    Json(Value),
    Bytes(&'static str, Vec<u8>),
}

impl From<Value> for Body {
    fn from(value: Value) -> Body {
        Body::Json(value)
    }
}

pub struct Player<'a> {
    pub server: &'a Server,
    pub caller: Caller,
    pub tenant: String,
    pub places: Places,
    pub recorder: &'a mut Recorder,
    /// A status that is a refusal and as it should be.
    pub refused: u16,
    /// Method and path by the name of the operation.
    operations: BTreeMap<String, (String, String)>,
}

/// The operations of the document.
pub fn operations() -> BTreeMap<String, (String, String)> {
    let document: Value = serde_json::from_str(slatebase::http::openapi::text()).unwrap();
    let mut operations = BTreeMap::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let id = operation["operationId"].as_str().unwrap().to_owned();
            operations.insert(id, (method.to_uppercase(), path.clone()));
        }
    }
    operations
}

impl<'a> Player<'a> {
    pub fn new(
        server: &'a Server,
        caller: &Caller,
        tenant: &str,
        places: Places,
        recorder: &'a mut Recorder,
    ) -> Player<'a> {
        Player {
            server,
            caller: caller.clone(),
            tenant: tenant.to_owned(),
            places,
            recorder,
            refused: 0,
            operations: operations(),
        }
    }

    /// Calls an operation of the document. Each name in `path` stands for one in its path, in their order; what follows a
    /// `?` in the last is the query.
    pub async fn call(&mut self, id: &str, path: &[&str], body: impl Into<Body>) -> Reply {
        self.call_with(id, path, body, &[]).await
    }

    /// Lists the slates, by another token.
    pub async fn signed_in(&mut self, token: &str) {
        let reply = self.caller.with_token(token).get("/v1/slates").await;
        assert_eq!(reply.status, 200, "{}", String::from_utf8_lossy(&reply.body));
        self.recorder.look("list_slates", "by a fixed token");
    }

    /// The same with headers.
    pub async fn call_with(
        &mut self,
        id: &str,
        path: &[&str],
        body: impl Into<Body>,
        headers: &[(&str, &str)],
    ) -> Reply {
        let (method, template) =
            self.operations.get(id).unwrap_or_else(|| panic!("no operation {id}")).clone();
        let mut given = path.iter();
        let mut filled = String::new();
        for (n, piece) in template.split('{').enumerate() {
            match piece.split_once('}') {
                Some((_, rest)) if n > 0 => {
                    filled.push_str(
                        given.next().unwrap_or_else(|| panic!("{id}: {template} needs more names")),
                    );
                    filled.push_str(rest);
                }
                _ => filled.push_str(piece),
            }
        }
        given.for_each(|query| filled.push_str(query));
        let caller = if id.ends_with("_tenant")
            || ["list_tenants", "create_key", "list_keys", "revoke_key", "put_key_alias", "delete_key_alias"]
                .contains(&id)
        {
            &self.server.operator
        } else {
            &self.caller
        };
        let mut request = caller.request(&method, &filled);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let body = body.into();
        let mut detail = filled.clone();
        let request = match body {
            Body::None => request,
            Body::Json(body) => {
                detail = format!("{filled} {}", body.to_string().chars().take(300).collect::<String>());
                request.json(body)
            }
            Body::Bytes(media_type, bytes) => request.body(media_type, bytes),
        };
        let started = std::time::Instant::now();
        let reply = request.await;
        let took = started.elapsed().as_secs_f64();
        if took > 5.0 {
            eprintln!("{}: {id} took {took:.1} s: {detail}", self.recorder.shape);
        }
        if reply.status >= 400 && reply.status != self.refused {
            let body: String = String::from_utf8_lossy(&reply.body).chars().take(400).collect();
            self.recorder
                .failures
                .push(format!("{}: {id}, {detail}: {} {body}", self.recorder.shape, reply.status));
        }
        self.recorder.look(id, &detail);
        reply
    }

    pub async fn get(&mut self, id: &str, path: &[&str]) -> Reply {
        self.call(id, path, Body::None).await
    }

    /// A query of the slate.
    pub async fn query(&mut self, folder: &str, recursive: bool, limit: u32, request: Value) -> Value {
        let body = json!({"folder": folder, "recursive": recursive, "limit": limit, "request": request});
        self.call("query_slate", &["Docs"], body).await.json()
    }
}

/// A member that is a text, or the empty text.
pub fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_default().to_owned()
}
