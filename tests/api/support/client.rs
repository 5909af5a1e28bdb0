//! A client that says what went wrong, also where an answer is none that the OpenAPI document tells of.

use std::future::{Future, IntoFuture};
use std::pin::Pin;

use reqwest::Method;
use reqwest::header::HeaderMap;
use serde_json::Value;

use super::contract;

/// Someone with a token, or without.
#[derive(Clone)]
pub struct Caller {
    pub base: String,
    pub token: Option<String>,
    client: reqwest::Client,
}

impl Caller {
    pub fn new(base: String, token: Option<String>) -> Caller {
        slatebase::outbound::install_tls();
        Caller { base, token, client: reqwest::Client::builder().no_proxy().no_gzip().build().unwrap() }
    }

    /// The same client with another token.
    pub fn with_token(&self, token: impl Into<String>) -> Caller {
        Caller { token: Some(token.into()), ..self.clone() }
    }

    /// The same client with no token.
    pub fn anonymous(&self) -> Caller {
        Caller { token: None, ..self.clone() }
    }

    pub fn request(&self, method: &str, path: &str) -> Request {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let mut builder = self.client.request(method, format!("{}{path}", self.base));
        if let Some(token) = &self.token {
            builder = builder.bearer_auth(token);
        }
        Request { builder }
    }

    pub fn get(&self, path: &str) -> Request {
        self.request("GET", path)
    }

    pub fn head(&self, path: &str) -> Request {
        self.request("HEAD", path)
    }

    pub fn post(&self, path: &str) -> Request {
        self.request("POST", path)
    }

    pub fn put(&self, path: &str) -> Request {
        self.request("PUT", path)
    }

    pub fn patch(&self, path: &str) -> Request {
        self.request("PATCH", path)
    }

    pub fn delete(&self, path: &str) -> Request {
        self.request("DELETE", path)
    }
}

/// A request, sent by `.await`.
pub struct Request {
    builder: reqwest::RequestBuilder,
}

impl Request {
    pub fn json(self, body: Value) -> Request {
        Request { builder: self.builder.json(&body) }
    }

    /// A body of a media type.
    pub fn body(self, media_type: &str, body: impl Into<reqwest::Body>) -> Request {
        Request { builder: self.builder.header("content-type", media_type).body(body) }
    }

    /// A body of no media type.
    pub fn bytes(self, body: impl Into<reqwest::Body>) -> Request {
        Request { builder: self.builder.body(body) }
    }

    pub fn header(self, name: &str, value: &str) -> Request {
        Request { builder: self.builder.header(name, value) }
    }

    async fn send(self) -> Reply {
        let (client, request) = self.builder.build_split();
        let request = request.unwrap();
        let method = request.method().to_string();
        let response = client.execute(request).await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let path = response.url().path().to_owned();
        let reply = Reply { status, headers, body: response.bytes().await.unwrap().to_vec() };
        contract::check(&method, &path, &reply);
        reply
    }
}

impl IntoFuture for Request {
    type Output = Reply;
    type IntoFuture = Pin<Box<dyn Future<Output = Reply> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}

/// An answer, read whole.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Reply {
    /// The header's value, or the empty text.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// The body as JSON, whatever the status.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    #[track_caller]
    pub fn expect(self, status: u16) -> Reply {
        assert_eq!(self.status, status, "{}", String::from_utf8_lossy(&self.body));
        self
    }

    /// The body of a success with JSON.
    #[track_caller]
    pub fn ok(self, status: u16) -> Value {
        self.expect(status).json()
    }

    /// Checks that this is a problem of the status and code, in the form that every problem has, and gives its body.
    #[track_caller]
    pub fn problem(self, status: u16, code: &str) -> Value {
        let reply = self.expect(status);
        assert_eq!(reply.header("content-type"), "application/problem+json");
        let problem = reply.json();
        assert_eq!(problem["type"], format!("/problems/{code}"), "{problem}");
        assert_eq!(problem["status"], status);
        for member in ["title", "detail", "instance", "request_id"] {
            assert!(problem[member].as_str().is_some_and(|text| !text.is_empty()), "{member}: {problem}");
        }
        assert_eq!(problem["request_id"], reply.header("x-request-id"));
        problem
    }

    /// The same for a body that is wrong at `pointer`.
    #[track_caller]
    pub fn invalid_at(self, pointer: &str) -> Value {
        let problem = self.problem(422, "invalid");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{problem}");
        problem
    }
}
