//! `/mcp` over streamable HTTP: what stands between the API's edge and the protocol.

mod answer;
mod complete;
mod prompts;
mod resources;
mod rounds;
mod schemas;
mod server;
mod stdio;
mod tools;
mod watch;

use std::sync::Arc;

use actix_web::body::{BoxBody, to_bytes};
use actix_web::dev::{Payload, ServiceRequest, ServiceResponse};
use actix_web::http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderName, HeaderValue};
use actix_web::http::{Method, StatusCode};
use actix_web::middleware::{Next, from_fn};
use actix_web::{HttpMessage, HttpRequest, web};
use rmcp::ServerHandler;
use rmcp::model::Extensions;
use rmcp_actix_web::transport::{CancellationToken, StreamableHttpService};
use uuid::Uuid;

pub use stdio::{ServeAs, serve};

use self::rounds::Rounds;
use self::server::Slates;
use crate::app::App;
use crate::ctx::Scope;
use crate::error::{Code, Error, Result};
use crate::http::auth::{self, Principal};
use crate::http::body;
use crate::http::problem::AsItIs;
use crate::mcp::runner::caller::{Caller, MCP_SESSION};
use crate::mcp::runner::sessions::{self, Rows, Sessions};
use crate::sessions::ops::running;

/// Bytes of a message: a file of some size in base64.
const MAX_MESSAGE: usize = 16 << 20;

/// The protocol's services, the same for all threads that take requests.
#[derive(Clone)]
pub struct Mcp {
    slates: StreamableHttpService<Slates, Sessions>,
    rounds: StreamableHttpService<Rounds, Sessions>,
}

impl Mcp {
    /// The services over an application. They end when it stops.
    pub fn new(app: &App) -> Mcp {
        let token = CancellationToken::new();
        let (ending, mut stopping) = (token.clone(), app.stopping.subscribe());
        tokio::spawn(async move {
            let _ = stopping.wait_for(|stopping| *stopping).await;
            ending.cancel();
        });
        let (slates, rounds) = (app.clone(), app.clone());
        Mcp {
            slates: service(app, &token, move || Slates::new(slates.clone(), None)),
            rounds: service(app, &token, move || Rounds { app: rounds.clone(), local: None }),
        }
    }

    /// Adds `/mcp` and what is below it.
    pub fn mount(self, config: &mut web::ServiceConfig) {
        config.service(
            web::scope("/mcp")
                .wrap(from_fn(guard))
                .wrap(from_fn(auth::authenticate))
                .service(self.rounds.scope_with_path("/sessions/{session_id}"))
                .service(self.slates.scope()),
        );
    }
}

fn service<S: ServerHandler>(
    app: &App,
    token: &CancellationToken,
    make: impl Fn() -> S + Send + Sync + 'static,
) -> StreamableHttpService<S, Sessions> {
    let sessions = Arc::new(Sessions::new(app.db.clone()));
    StreamableHttpService::builder()
        .service_factory(Arc::new(move || Ok(make())))
        .session_manager(sessions.clone())
        .session_store(Arc::new(Rows(sessions)))
        .max_request_body_bytes(MAX_MESSAGE)
        .json_response(true)
        .allowed_hosts(app.mcp_hosts.to_vec())
        .cancellation_token(token.clone())
        .on_request_fn(carry)
        .build()
}

/// Puts the caller with the message.
fn carry(req: &HttpRequest, message: &mut Extensions) {
    if let Some(caller) = req.extensions().get::<Caller>() {
        message.insert(caller.clone());
    }
}

/// Lets a request with a key's rights through to the protocol, and makes of the protocol's refusals what the API's are.
async fn guard(
    mut req: ServiceRequest,
    next: Next<BoxBody>,
) -> Result<ServiceResponse<BoxBody>, actix_web::Error> {
    let caller = match admit(&mut req).await {
        Ok(caller) => caller,
        Err(error) => return Ok(req.error_response(error)),
    };
    req.extensions_mut().insert(caller.clone());
    let named = req.headers().contains_key(MCP_SESSION);
    let (done, refused) = caller.scope(next.call(req)).await;
    let res = done?;
    let status = res.status();
    if status.is_client_error() || status.is_server_error() {
        return refuse(res, refused, named).await;
    }
    Ok(as_it_is(res))
}

/// Who sends the request, with what is to be known of it before the protocol reads it. Its body is read whole, under the
/// limits of every other.
async fn admit(req: &mut ServiceRequest) -> Result<Caller> {
    let ctx = match req.extensions().get::<Principal>() {
        Some(Principal::Key(ctx)) => ctx.clone(),
        _ => {
            return Err(Error::new(
                Code::Forbidden,
                "the operator token is for tenants and their keys alone",
            ));
        }
    };
    let session = req.path().strip_prefix("/mcp/sessions/").map(|rest| rest.trim_end_matches('/').to_owned());
    let at = session.map(|id| Uuid::parse_str(&id).map_err(|_| Error::not_found())).transpose()?;
    if at.is_some() {
        ctx.require(Scope::Retrieve)?;
    }
    if req.method() == Method::POST {
        let mut payload = req.take_payload();
        let body = body::read(req.request(), &mut payload, MAX_MESSAGE).await?;
        req.set_payload(Payload::from(body));
    }
    if let (Some(id), false) = (at, req.headers().contains_key(MCP_SESSION)) {
        let app = req.app_data::<web::Data<App>>().cloned().ok_or_else(Error::not_found)?;
        let asking = ctx.clone();
        app.db.tenant(ctx.tenant, move |tx| running::glance(tx, &asking, id)).await?;
    }
    Ok(Caller { ctx, at })
}

/// A refusal of the protocol's: its own JSON as it is, and its words as a problem. An MCP session whose worker went in
/// between is one that is not there.
async fn refuse(
    res: ServiceResponse<BoxBody>,
    refused: Option<Error>,
    named: bool,
) -> Result<ServiceResponse<BoxBody>, actix_web::Error> {
    let status = res.status();
    let json = res
        .headers()
        .get(CONTENT_TYPE)
        .is_some_and(|value| value.as_bytes().starts_with(b"application/json"));
    if json && refused.is_none() {
        return Ok(as_it_is(res));
    }
    let (req, res) = res.into_parts();
    let words = to_bytes(res.into_body()).await.unwrap_or_default();
    let words = String::from_utf8_lossy(&words).into_owned();
    let code = match status {
        StatusCode::NOT_FOUND => Code::NotFound,
        StatusCode::FORBIDDEN => Code::Forbidden,
        StatusCode::METHOD_NOT_ALLOWED => Code::MethodNotAllowed,
        StatusCode::NOT_ACCEPTABLE => Code::NotAcceptable,
        StatusCode::PAYLOAD_TOO_LARGE => Code::BodyTooLarge,
        StatusCode::UNSUPPORTED_MEDIA_TYPE => Code::UnsupportedMediaType,
        status if status.is_client_error() => Code::BadRequest,
        _ => {
            tracing::warn!("the protocol failed: {words}");
            if named { Code::NotFound } else { Code::Unavailable }
        }
    };
    let error = refused.unwrap_or_else(|| match code {
        Code::NotFound if named => sessions::unknown(),
        Code::NotFound => Error::not_found(),
        Code::Unavailable => Error::new(code, "the message could not be taken; send it again"),
        code => Error::new(code, if words.is_empty() { code.title().to_owned() } else { words }),
    });
    let res = actix_web::HttpResponse::from_error(error);
    Ok(ServiceResponse::new(req, res))
}

/// An answer of the protocol's, which nothing is to change: events are sent as they happen, and errors are JSON-RPC's.
fn as_it_is(mut res: ServiceResponse<BoxBody>) -> ServiceResponse<BoxBody> {
    let events = res
        .headers()
        .get(CONTENT_TYPE)
        .is_some_and(|value| value.as_bytes().starts_with(b"text/event-stream"));
    if events {
        let headers = res.headers_mut();
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("identity"));
        headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    }
    res.response_mut().extensions_mut().insert(AsItIs);
    res
}
