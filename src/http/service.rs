//! What is served beside the API: health, metrics and documentation. None of it asks for a key.

use actix_web::http::header::{CONTENT_TYPE, LOCATION};
use actix_web::{HttpResponse, get, web};
use utoipa_actix_web::service_config::ServiceConfig;
use utoipa_swagger_ui::{Config, SwaggerUi};

use super::metrics::recorder;
use super::openapi;
use crate::app::App;
use crate::db::migrate;
use crate::error::{Code, Error, Result};

/// Adds the routes.
pub fn configure(config: &mut ServiceConfig) {
    config
        .service(get_healthz)
        .service(get_readyz)
        .service(get_metrics)
        .service(get_openapi)
        .service(get_docs)
        .map(|config| config.service(SwaggerUi::new("/docs/{_:.*}").config(Config::from("/openapi.json"))));
}

/// Whether the process is alive
#[utoipa::path(operation_id = "get_healthz", tag = "service", responses(
    (status = 200, description = "It is", body = String, content_type = "text/plain", example = "ok")))]
#[get("/healthz")]
async fn get_healthz() -> &'static str {
    "ok"
}

/// Whether requests can be served
///
/// The database is reachable, and its schema is the one that this binary needs.
#[utoipa::path(operation_id = "get_readyz", tag = "service", responses(
    (status = 200, description = "They can", body = String, content_type = "text/plain", example = "ok")))]
#[get("/readyz")]
async fn get_readyz(app: web::Data<App>) -> Result<&'static str> {
    let current = app.db.anonymous(|connection| Ok(migrate::is_current(connection)?)).await;
    match current {
        Ok(true) => Ok("ok"),
        Ok(false) => {
            Err(Error::new(Code::Unavailable, "the database's schema is not the one this version needs"))
        }
        Err(error) if error.code.status() == 503 => Err(error),
        Err(error) => Err(Error {
            source: error.source,
            ..Error::new(Code::Unavailable, "the database cannot be asked for its schema")
        }),
    }
}

/// Counts and latencies for Prometheus
#[utoipa::path(operation_id = "get_metrics", tag = "service", responses(
    (status = 200, description = "In the text format", body = String, content_type = "text/plain",
     example = "slatebase_http_requests_total{method=\"GET\",route=\"/healthz\",status=\"200\"} 1")))]
#[get("/metrics")]
async fn get_metrics() -> Result<HttpResponse> {
    let text = recorder().map_err(Error::internal)?.render();
    Ok(HttpResponse::Ok()
        .insert_header((CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8"))
        .body(text))
}

/// This document
#[utoipa::path(operation_id = "get_openapi", tag = "service", responses(
    (status = 200, description = "OpenAPI 3.1", body = serde_json::Value, content_type = "application/json",
     example = json!({"openapi": "3.1.0"}))))]
#[get("/openapi.json")]
async fn get_openapi() -> HttpResponse {
    HttpResponse::Ok().content_type("application/json").body(openapi::text())
}

/// This document, to browse and to try
#[utoipa::path(operation_id = "get_docs", tag = "service", responses(
    (status = 308, description = "To the pages, which are under `/docs/`")))]
#[get("/docs")]
async fn get_docs() -> HttpResponse {
    HttpResponse::PermanentRedirect().insert_header((LOCATION, "/docs/")).finish()
}
