//! `Idempotency-Key` (REST contract, "Writing safely"): a POST that changes something names this middleware,
//!
//! ```text
//! #[post("/tenants", wrap = "from_fn(once::<Operator, DEFAULT_LIMIT>)")]
//! ```
//!
//! with the right that it needs and the body limit of its route, and lists [`IdempotencyKey`] among its parameters. Without the header nothing
//! happens here. With it:
//!
//! * The body is read whole before the work begins, since the key is bound to it. A stream of NDJSON may have at most
//!   [`STREAM_LIMIT`] bytes then, and its answer is sent when it is complete.
//! * Work that has begun is finished and kept, also when the client has gone: its retry then gets the answer.
//! * What is answered below 500 is kept and replayed with `Idempotency-Replayed: true`; 5xx frees the key.
//! * An answer that says `Cache-Control: no-store` holds a secret, and is not kept: a retry gets 409.

use std::future::{Ready, ready};

use actix_web::body::{BoxBody, to_bytes};
use actix_web::dev::{Payload, ServiceRequest, ServiceResponse};
use actix_web::http::StatusCode;
use actix_web::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderMap, HeaderName};
use actix_web::middleware::Next;
use actix_web::web::{self, Bytes};
use actix_web::{FromRequest, HttpMessage, HttpRequest, HttpResponse};
use chrono::{SubsecRound, Utc};
use tracing::Instrument;
use utoipa::IntoParams;

use super::auth::{Principal, no_app};
use super::body::read;
use super::json::media_type;
use super::problem::render;
use crate::app::App;
use crate::ctx::TenantId;
use crate::db::patient;
use crate::error::{Error, FieldError, Result};
use crate::idempotency::ops::{self, Begun, Lease};
use crate::idempotency::{Key, Outcome, fingerprint};

/// Bytes that a stream may have under an idempotency key.
pub const STREAM_LIMIT: usize = 8 << 20;

const HEADER: HeaderName = HeaderName::from_static("idempotency-key");
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// The header, for the OpenAPI document.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub struct IdempotencyKey {
    /// Makes a retry safe: the first result under this key is kept for 24 hours, and answered again to the same request.
    #[param(rename = "Idempotency-Key", min_length = 1, max_length = 255, example = "6f1c1d1e-create-acme")]
    pub key: Option<String>,
}

/// The key that was sent, for a route that keeps it itself instead of naming [`once`].
pub struct SentKey(pub Option<Key>);

impl FromRequest for SentKey {
    type Error = Error;
    type Future = Ready<Result<Self>>;

    fn from_request(req: &HttpRequest, _: &mut Payload) -> Self::Future {
        let sent = req.headers().contains_key(&HEADER);
        ready(sent.then(|| key(req.headers())).transpose().map(SentKey))
    }
}

/// Runs the POST once for an `Idempotency-Key`. `Right` is the handler's first argument, so that a caller without the
/// right is refused before anything else is looked at; `LIMIT` is the route's body limit.
pub async fn once<Right: FromRequest<Error = Error>, const LIMIT: usize>(
    mut req: ServiceRequest,
    next: Next<BoxBody>,
) -> Result<ServiceResponse<BoxBody>, actix_web::Error> {
    if !req.headers().contains_key(&HEADER) {
        return next.call(req).await;
    }
    if let Err(error) = Right::from_request(req.request(), &mut Payload::None).await {
        return Ok(req.error_response(error));
    }
    match begin(&mut req, LIMIT).await {
        Err(error) => Ok(req.error_response(error)),
        Ok((_, _, Begun::Replay(outcome))) => {
            let response = replay(outcome);
            Ok(req.into_response(response))
        }
        Ok((app, tenant, Begun::First(lease))) => {
            let work = patient(next.call(req));
            let work = async move { keep(&app, tenant, lease, render(work.await?)).await };
            let task = actix_web::rt::spawn(work.instrument(tracing::Span::current()));
            // It is never cancelled, so it can only have panicked: go on as if there were no task in between.
            task.await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
        }
    }
}

fn key(headers: &HeaderMap) -> Result<Key> {
    let mut values = headers.get_all(&HEADER);
    match (values.next(), values.next()) {
        (Some(value), None) => Key::parse(value.as_bytes()),
        _ => Err(FieldError::new("", "the Idempotency-Key is there twice").into()),
    }
}

async fn begin(req: &mut ServiceRequest, limit: usize) -> Result<(App, TenantId, Begun)> {
    let key = key(req.headers())?;
    let app = req.app_data::<web::Data<App>>().ok_or_else(no_app)?.get_ref().clone();
    let identity = req.extensions().get::<Principal>().map(Principal::identity);
    let (tenant, key_id) = identity.ok_or_else(no_app)?;
    let stream = media_type(req.request()).is_some_and(|kind| kind == "application/x-ndjson");
    let limit = if stream { limit.min(STREAM_LIMIT) } else { limit };
    let mut payload = req.take_payload();
    let body = read(req.request(), &mut payload, limit).await?;
    let request = fingerprint_of(req, &body);
    req.set_payload(Payload::from(body));
    let now = Utc::now().trunc_subsecs(6);
    let begun = app.db.tenant(tenant, move |tx| ops::begin(tx, key_id, &key, &request, now)).await?;
    Ok((app, tenant, begun))
}

fn fingerprint_of(req: &ServiceRequest, body: &Bytes) -> [u8; 32] {
    let content_type = req.headers().get(CONTENT_TYPE).map_or(&b""[..], |value| value.as_bytes());
    fingerprint([
        req.method().as_str().as_bytes(),
        req.uri().path().as_bytes(),
        req.query_string().as_bytes(),
        content_type,
        body,
    ])
}

/// Keeps what came of the work. That this fails is no reason to hide from the client that the work was done.
async fn keep(
    app: &App,
    tenant: TenantId,
    lease: Lease,
    res: ServiceResponse<BoxBody>,
) -> Result<ServiceResponse<BoxBody>, actix_web::Error> {
    let (req, res) = res.into_parts();
    let (res, body) = res.into_parts();
    let body = match res.status().is_server_error() {
        true => body,
        false => {
            let bytes = to_bytes(body).await.map_err(|error| Error::internal(anyhow::anyhow!("{error}")))?;
            let outcome = outcome(res.status(), res.headers(), &bytes);
            log(app.db.tenant(tenant, move |tx| ops::keep(tx, &lease, &outcome)).await);
            return Ok(ServiceResponse::new(req, res.set_body(BoxBody::new(bytes))));
        }
    };
    log(app.db.tenant(tenant, move |tx| ops::free(tx, &lease)).await);
    Ok(ServiceResponse::new(req, res.set_body(body)))
}

fn outcome(status: StatusCode, headers: &HeaderMap, body: &Bytes) -> Outcome {
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok()).map(String::from);
    let secret = text(CACHE_CONTROL).is_some_and(|value| value == "no-store");
    Outcome {
        status: status.as_u16(),
        content_type: text(CONTENT_TYPE),
        etag: text(ETAG),
        body: if secret { None } else { Some(body.to_vec()) },
    }
}

fn replay(outcome: Outcome) -> HttpResponse {
    let status = StatusCode::from_u16(outcome.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = HttpResponse::build(status);
    response.insert_header((REPLAYED, "true"));
    for (name, value) in [(CONTENT_TYPE, outcome.content_type), (ETAG, outcome.etag)] {
        if let Some(value) = value {
            response.insert_header((name, value));
        }
    }
    response.body(outcome.body.unwrap_or_default())
}

fn log(kept: Result<()>) {
    if let Err(error) = kept {
        tracing::error!("the outcome under an Idempotency-Key was not kept: {error}");
    }
}
