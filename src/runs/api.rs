//! Runs, and watching sessions, over HTTP (REST contract, "Sessions").

use actix_web::http::header::{CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, LOCATION};
use actix_web::middleware::from_fn;
use actix_web::{HttpRequest, HttpResponse, get, post, web};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};
use utoipa_actix_web::service_config::ServiceConfig;
use uuid::Uuid;

use super::model::Model;
use super::ops;
use super::runner::stream;
use super::view::RunView;
use crate::app::App;
use crate::error::{Code, Error, Result};
use crate::http::auth::{ReadOrRetrieve, Retrieve};
use crate::http::body::DEFAULT_LIMIT;
use crate::http::idempotency::{IdempotencyKey, once};
use crate::http::json::Body;
use crate::http::query::Query;
use crate::sessions::event::Happened;

const LAST_EVENT_ID: &str = "Last-Event-ID";

/// Adds the routes.
pub fn configure(config: &mut ServiceConfig) {
    config.service(run_session).service(get_run).service(watch_session);
}

/// How a session is to be run.
#[derive(Deserialize, ToSchema)]
#[schema(as = NewRun, example = json!({"model": {"base_url": "https://llm.example.com/v1", "name": "gpt-5",
    "secret": "llm-key", "parameters": {"temperature": 0}}}))]
#[serde(deny_unknown_fields)]
struct NewRunBody {
    /// The model.
    model: Model,
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct WatchQuery {
    /// Only events after this number; `Last-Event-ID` comes before it.
    #[serde(default)]
    #[param(value_type = Option<i64>, minimum = 0, maximum = 4294967295i64, default = 0)]
    after: Option<u32>,
}

/// Named only for the document: the handler reads it.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[allow(dead_code, reason = "it describes a header")]
struct LastEventId {
    /// The `id` of the last event that was received: the stream goes on after it, on whichever server.
    #[param(rename = "Last-Event-ID", example = "3", pattern = "^[0-9]{1,9}$")]
    id: Option<String>,
}

/// Run a session
///
/// The service calls the model itself from now on, any chat endpoint that speaks as OpenAI's does, until the session has its
/// answer, has failed or is cancelled; a client takes no round of it meanwhile. Each answer is stored before it is acted on.
/// 429, 5xx, time-outs and failures to connect are tried again, at the time that `Retry-After` says where it says one.
#[utoipa::path(operation_id = "run_session", tag = "sessions",
    params(("id" = Uuid, Path, description = "The session's id"), IdempotencyKey), request_body = NewRunBody, responses(
    (status = 202, description = "It runs", body = RunView,
     headers(("Location" = String, description = "Where the run is"))),
    (status = 409, description = "The session is finished, or runs already"),
    (status = 429, description = "A limit of the tenant's settings is reached; `Retry-After` says when to come back",
     headers(("Retry-After" = u64, description = "In seconds")))))]
#[post("/sessions/{id}/run", wrap = "from_fn(once::<Retrieve, DEFAULT_LIMIT>)")]
async fn run_session(
    Retrieve(ctx): Retrieve,
    app: web::Data<App>,
    id: web::Path<Uuid>,
    Body(new): Body<NewRunBody>,
) -> Result<HttpResponse> {
    let view = app.db.tenant(ctx.tenant, move |tx| ops::start(tx, &ctx, *id, &new.model)).await?;
    let location = format!("/v1/sessions/{}/run", view.session_id);
    Ok(HttpResponse::Accepted().insert_header((LOCATION, location)).json(view))
}

/// Get the run of a session
///
/// With the answers that were received and what they cost.
#[utoipa::path(operation_id = "get_run", tag = "sessions", params(("id" = Uuid, Path, description = "The session's id")), responses(
    (status = 200, description = "The run", body = RunView)))]
#[get("/sessions/{id}/run")]
async fn get_run(
    ReadOrRetrieve(ctx): ReadOrRetrieve,
    app: web::Data<App>,
    id: web::Path<Uuid>,
) -> Result<HttpResponse> {
    let view = app.db.tenant(ctx.tenant, move |tx| ops::get(tx, &ctx, *id)).await?;
    Ok(HttpResponse::Ok().json(view))
}

/// Watch a session
///
/// Server-Sent Events, of sessions that the service runs and of others: what has happened, then what happens, until the
/// session is finished. `event` is the kind, `id` counts the session's events, `data` is one line of JSON. Comments are sent
/// while nothing happens. A stream that was cut off goes on where it was by `Last-Event-ID`, on whichever server; when all
/// was told of a finished session, the answer is 204, upon which clients stop connecting again.
#[utoipa::path(operation_id = "watch_session", tag = "sessions",
    params(("id" = Uuid, Path, description = "The session's id"), WatchQuery, LastEventId), responses(
    (status = 200, description = "The events", content_type = "text/event-stream", body = Happened),
    (status = 204, description = "The session is finished, and no event comes after the one that was named")))]
#[get("/sessions/{id}/events")]
async fn watch_session(
    ReadOrRetrieve(ctx): ReadOrRetrieve,
    app: web::Data<App>,
    id: web::Path<Uuid>,
    req: HttpRequest,
    Query(query): Query<WatchQuery>,
) -> Result<HttpResponse> {
    let sent = req.headers().get(LAST_EVENT_ID).map(|value| {
        let number = value.to_str().ok().and_then(|text| text.trim().parse::<u32>().ok());
        number.ok_or_else(|| Error::new(Code::BadRequest, "Last-Event-ID must be the id of an event"))
    });
    let after = sent.transpose()?.or(query.after).unwrap_or(0);
    let Some(events) = stream::watch(&app, ctx, *id, after.into()).await? else {
        return Ok(HttpResponse::NoContent().finish());
    };
    Ok(HttpResponse::Ok()
        .insert_header((CONTENT_TYPE, "text/event-stream"))
        .insert_header((CACHE_CONTROL, "no-cache"))
        // A compressor would keep events until it has enough of them, and so would a proxy.
        .insert_header((CONTENT_ENCODING, "identity"))
        .insert_header(("X-Accel-Buffering", "no"))
        .streaming(events))
}
