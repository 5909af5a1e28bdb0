//! The HTTP edge: who calls, what was sent, and how answers and refusals look (REST contract).
//!
//! A request passes, from the outside in: its log span and id, the metrics, [`problem::problems`] (which writes the body
//! of every refusal), compression, and for `/v1` [`auth::authenticate`]. A handler then parses by its extractors, calls
//! a use case in `ops`, and turns the result into a view. What holds always:
//!
//! * every 4xx and 5xx of a request that was understood as HTTP is `application/problem+json`;
//! * 401 and 403 come before anything that depends on what was sent;
//! * no middleware answers by `Err`, which would skip the layers around it.
//!
//! # How to add an endpoint
//!
//! 1. Write the use case in the feature's `ops.rs`: `fn rename_thing(tx: &mut Tx, ctx: &Ctx, …) -> Result<Thing>`.
//! 2. Write the handler in its `api.rs`. Doc comment: first line the summary, then the description. The operation id is
//!    `verb_resource`, the first argument the right that it needs:
//!
//!    ```text
//!    /// Rename a thing
//!    #[utoipa::path(operation_id = "rename_thing", tag = "things", params(IdempotencyKey),
//!        request_body = NewName, responses((status = 200, description = "Renamed", body = ThingView)))]
//!    #[post("/things/{thing}/name", wrap = "from_fn(once::<Write, DEFAULT_LIMIT>)")]
//!    async fn rename_thing(
//!        Write(ctx): Write, app: web::Data<App>, thing: web::Path<String>, Body(new): Body<NewName>,
//!    ) -> Result<HttpResponse> {
//!        let renamed = app.db.tenant(ctx.tenant, move |tx| ops::rename_thing(tx, &ctx, &thing, &new)).await?;
//!        Ok(HttpResponse::Ok().json(ThingView::from(renamed)))
//!    }
//!    ```
//!
//!    Bodies: [`json::Body`], [`json::OptionalBody`], [`json::JsonOrYaml`], [`body::Raw`], each with a limit of its own
//!    where 1 MiB is not right. Query strings: [`query::Query`]. Lists: [`page`]. Entity tags: [`conditional`].
//!    A POST that changes something: [`idempotency`].
//! 3. Give the fields of its views `#[schema(example = …)]`; examples of whole bodies are put together from them. Two
//!    types of one name need `#[schema(as = …)]`. Problem responses, headers and the security scheme are added to the
//!    document by [`openapi`]; a status that follows from no rule of its stands in `responses`.
//! 4. Add `.service(rename_thing)` to the feature's `configure`, and the feature to [`configure`] below.
//! 5. Run the tests with `SLATEBASE_WRITE_OPENAPI=1` once, to renew `openapi/openapi.json`.
//!
//! A path parameter that is called `path` is the rest of the URL (`{path:.*}`), slashes included.

use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{ServiceFactory, ServiceRequest, ServiceResponse};
use actix_web::http::header::{ALLOW, CONTENT_ENCODING, ETAG, HeaderValue};
use actix_web::middleware::{Compress, Next, from_fn};
use actix_web::{HttpRequest, HttpResponse, web};
use tracing_actix_web::TracingLogger;
use utoipa_actix_web::service_config::ServiceConfig;
use utoipa_actix_web::{AppExt, scope};

use crate::app::App;
use crate::error::{Code, Error, FieldError, Result};
use crate::mcp::api::Mcp;

pub mod auth;
pub mod body;
pub mod conditional;
pub mod idempotency;
pub mod json;
mod json_scan;
pub mod metrics;
pub mod openapi;
pub mod page;
pub mod problem;
pub mod query;
pub mod server;
mod service;
mod span;

/// The features, one line each. Paths are below `/v1`.
pub fn configure(config: &mut ServiceConfig) {
    config
        .configure(crate::tenants::api::configure)
        .configure(crate::secrets::api::configure)
        .configure(crate::slates::api::configure)
        .configure(crate::folders::api::configure)
        .configure(crate::files::api::configure)
        .configure(crate::archives::api::configure)
        .configure(crate::retrieval::api::configure)
        .configure(crate::corpora::api::configure)
        .configure(crate::routes::api::configure)
        .configure(crate::tools::api::configure)
        .configure(crate::provenance::api::configure)
        .configure(crate::sessions::api::configure)
        .configure(crate::runs::api::configure)
        .configure(crate::capability::api::configure);
}

/// The whole service.
pub fn app(
    app: App,
    mcp: Mcp,
) -> actix_web::App<
    impl ServiceFactory<
        ServiceRequest,
        Config = (),
        Response = ServiceResponse<impl MessageBody>,
        Error = actix_web::Error,
        InitError = (),
    >,
> {
    actix_web::App::new()
        .app_data(web::Data::new(app))
        .app_data(web::PathConfig::default().error_handler(|_, _| Error::not_found().into()))
        .into_utoipa_app()
        .service(scope("/v1").configure(configure).map(|scope| scope.wrap(from_fn(auth::authenticate))))
        .service(
            scope("/corpora")
                .configure(crate::corpora::api::configure_search)
                .map(|scope| scope.wrap(from_fn(auth::authenticate))),
        )
        .configure(service::configure)
        .into_app()
        .configure(|config| mcp.mount(config))
        .default_service(web::to(no_route))
        .wrap(from_fn(keep_exact))
        .wrap(Compress::default())
        .wrap(from_fn(reveal_exact))
        .wrap(from_fn(problem::problems))
        .wrap(from_fn(metrics::measure))
        .wrap(TracingLogger::<span::Spans>::new())
}

/// A path that is there takes other methods (405), or there is none (404).
async fn no_route(req: HttpRequest) -> HttpResponse {
    let allowed = openapi::methods(req.path());
    if allowed.is_empty() {
        return HttpResponse::from_error(Error::not_found());
    }
    let detail = format!("{} takes {allowed}", req.path());
    let error = Error::new(Code::MethodNotAllowed, detail);
    let mut response = HttpResponse::from_error(error);
    if let Ok(value) = HeaderValue::from_str(&allowed) {
        response.headers_mut().insert(ALLOW, value);
    }
    response
}

/// Refuses a path or query that is not percent-encoded UTF-8, which the framework would replace in silence, and
/// U+0000, which no name holds.
fn check_uri(req: &ServiceRequest) -> Result<()> {
    for part in [req.uri().path(), req.query_string()] {
        let bytes = part.as_bytes();
        let hex = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_hexdigit);
        let broken = (0..bytes.len()).any(|at| bytes[at] == b'%' && !(hex(at + 1) && hex(at + 2)));
        let decoded = percent_encoding::percent_decode(bytes).decode_utf8();
        if broken || decoded.is_err() {
            return Err(Error::new(Code::BadRequest, "the URL is not percent-encoded UTF-8"));
        }
        if decoded.is_ok_and(|text| text.contains('\0')) {
            return Err(FieldError::new("", "the URL holds U+0000, which no name does").into());
        }
    }
    Ok(())
}

/// A strong entity tag names one sequence of bytes, and so does a range: a response with an `ETag` is not compressed.
/// The layer around compression takes the mark away again.
async fn keep_exact(
    req: ServiceRequest,
    next: Next<BoxBody>,
) -> Result<ServiceResponse<BoxBody>, actix_web::Error> {
    let mut res = next.call(req).await?;
    if res.headers().contains_key(ETAG) && !res.headers().contains_key(CONTENT_ENCODING) {
        res.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("identity"));
    }
    Ok(res)
}

async fn reveal_exact<B: MessageBody>(
    req: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<B>, actix_web::Error> {
    let mut res = next.call(req).await?;
    if res.headers().get(CONTENT_ENCODING).is_some_and(|encoding| encoding == "identity") {
        res.headers_mut().remove(CONTENT_ENCODING);
    }
    Ok(res)
}
