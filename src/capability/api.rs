//! `retrieve` and citations over HTTP.

pub mod registry;

use actix_web::{HttpResponse, get, post, web};
use serde_json::{Map, Value};
use utoipa_actix_web::service_config::ServiceConfig;

use super::citations::{Check, Resolution, ToCheck, ToResolve};
use super::descriptor::{self, Descriptor};
use super::outcome::Retrieval;
use super::request::Asked;
use super::runner;
use crate::app::App;
use crate::error::Result;
use crate::http::auth::{ReadOrRetrieve, Retrieve};
use crate::http::json::{self, Body};

/// Adds the routes.
pub fn configure(config: &mut ServiceConfig) {
    config.service(retrieve).service(resolve_citation).service(check_citation).service(describe_retrieve);
    registry::configure(config);
}

/// Retrieve one thing
///
/// Fetches one identified thing of one source, and gives it with its citation, integrity, freshness, extraction and
/// confidence. Nothing that could be got is an answer as well: `retrieved.data` is null, and `failure` tells why. Reading
/// changes nothing at the source.
#[utoipa::path(operation_id = "retrieve_target", tag = "retrieve", request_body(content = Asked,
    example = json!({"target": "config/database.yml", "constraints": {"slate": "Knowledge", "lines": "1-50"}})),
    responses((status = 200, description = "What was retrieved, or why nothing was", body = Retrieval)))]
#[post("/retrieve")]
async fn retrieve(
    Retrieve(ctx): Retrieve,
    app: web::Data<App>,
    Body(sent): Body<Map<String, Value>>,
) -> Result<HttpResponse> {
    let sent = Value::Object(sent);
    let asked: Asked = json::from_value(sent.clone())?;
    Ok(HttpResponse::Ok().json(runner::retrieve(&app, &ctx, asked, sent).await?))
}

/// Resolve a citation
///
/// Fetches exactly what is cited again, and says whether it is what was cited: `verified`, `changed` (its source has other
/// bytes now), `gone`, or `integrity_mismatch`.
#[utoipa::path(operation_id = "resolve_citation", tag = "retrieve", request_body = ToResolve,
    responses((status = 200, description = "What became of it", body = Resolution),
              (status = 404, description = "There is no such file, or the key may not see it")))]
#[post("/citations/resolve")]
async fn resolve_citation(
    Retrieve(ctx): Retrieve,
    app: web::Data<App>,
    Body(asked): Body<ToResolve>,
) -> Result<HttpResponse> {
    Ok(HttpResponse::Ok().json(runner::resolve(&app, &ctx, asked).await?))
}

/// Check a quote
///
/// Says whether a text stands in what is cited, white space apart, and in which lines; or else in the rest of the file, in
/// another version of its path, or in another file that the session was shown. No model is involved.
#[utoipa::path(operation_id = "check_citation", tag = "retrieve", request_body = ToCheck,
    responses((status = 200, description = "Where it stands", body = Check),
              (status = 404, description = "There is no such session")))]
#[post("/citations/check")]
async fn check_citation(
    Retrieve(ctx): Retrieve,
    app: web::Data<App>,
    Body(asked): Body<ToCheck>,
) -> Result<HttpResponse> {
    Ok(HttpResponse::Ok().json(runner::check(&app, &ctx, asked).await?))
}

/// Describe the capability
///
/// Tells what `retrieve` takes and gives, as JSON Schemas, and that it changes nothing.
#[utoipa::path(operation_id = "describe_retrieve", tag = "retrieve",
    responses((status = 200, description = "The descriptor", body = Descriptor)))]
#[get("/capabilities/retrieve")]
async fn describe_retrieve(_caller: ReadOrRetrieve) -> Result<HttpResponse> {
    Ok(HttpResponse::Ok().json(descriptor::descriptor()))
}
