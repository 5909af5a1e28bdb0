//! What is served beside the API: health, metrics and documentation. None of it asks for a key.

use actix_web::http::header::{ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION, VARY};
use actix_web::{HttpRequest, HttpResponse, get, web};
use serde::Serialize;
use utoipa::ToSchema;
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
        .service(get_service)
        .service(get_healthz)
        .service(get_readyz)
        .service(get_metrics)
        .service(get_openapi)
        .service(get_docs)
        .map(|config| config.service(SwaggerUi::new("/docs/{_:.*}").config(Config::from("/openapi.json"))));
}

/// What this service is, for a program.
#[derive(Serialize, ToSchema)]
struct ServiceInfo {
    /// `Slatebase`.
    #[schema(example = "Slatebase")]
    name: &'static str,
    /// The version of the binary.
    #[schema(example = "0.1.0")]
    version: &'static str,
    /// Whether requests can be served, as `/readyz` tells.
    #[schema(example = true)]
    ready: bool,
    /// The path of the OpenAPI document.
    #[schema(example = "/openapi.json")]
    openapi: &'static str,
    /// The path of the same document to browse and to try.
    #[schema(example = "/docs")]
    docs: &'static str,
}

/// What this service is
///
/// For a program the address of the OpenAPI document, as JSON; for a browser, which accepts `text/html`, a page that says
/// whether the service is well and leads to the documentation.
#[utoipa::path(operation_id = "get_service", tag = "service", responses(
    (status = 200, description = "What this is, and where the document is", content(
        (ServiceInfo = "application/json"),
        (String = "text/html", example = "<!doctype html>")),
     headers(("Vary" = String, description = "`accept`")))))]
#[get("/")]
async fn get_service(app: web::Data<App>, req: HttpRequest) -> HttpResponse {
    let ready = ready(&app).await.is_ok();
    let info = ServiceInfo {
        name: "Slatebase",
        version: env!("CARGO_PKG_VERSION"),
        ready,
        openapi: "/openapi.json",
        docs: "/docs",
    };
    let mut response = HttpResponse::Ok();
    response.insert_header((VARY, "accept")).insert_header((CACHE_CONTROL, "no-cache"));
    match wants_html(&req) {
        true => response
            .content_type("text/html; charset=utf-8")
            .insert_header((CONTENT_SECURITY_POLICY, "default-src 'none'; style-src 'unsafe-inline'"))
            .body(page(&info)),
        false => response.json(info),
    }
}

/// Browsers name the type; programs name JSON, or take anything.
fn wants_html(req: &HttpRequest) -> bool {
    let accepted = req.headers().get_all(ACCEPT).filter_map(|value| value.to_str().ok());
    accepted.flat_map(|value| value.split(',')).any(|range| {
        range.split(';').next().is_some_and(|kind| kind.trim_ascii().eq_ignore_ascii_case("text/html"))
    })
}

fn page(info: &ServiceInfo) -> String {
    let ServiceInfo { name, version, openapi, docs, .. } = info;
    let state = if info.ready { "It is well: requests are served." } else { "It is not ready: see /readyz." };
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>{name}</title>\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <style>body{{font:1rem/1.6 system-ui;max-width:40rem;margin:4rem auto;padding:0 1rem}}</style>\n\
         <h1>{name} {version}</h1>\n\
         <p>A multi-tenant store of knowledge that LLM agents read deterministically, with provenance for all they were \
         shown.</p>\n<p>{state}</p>\n\
         <ul>\n<li><a href=\"{docs}\">The API, to browse and to try</a></li>\n\
         <li><a href=\"{openapi}\">The OpenAPI document</a>, for clients</li>\n\
         <li><a href=\"/healthz\">/healthz</a>, <a href=\"/readyz\">/readyz</a> and <a href=\"/metrics\">/metrics</a>, \
         for whoever runs it</li>\n</ul>\n</html>\n"
    )
}

/// Whether the process is alive
///
/// It asks nothing of the database. 200 as long as requests are taken at all.
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
    ready(&app).await.map(|()| "ok")
}

async fn ready(app: &App) -> Result<()> {
    let current = app.db.anonymous(|connection| Ok(migrate::is_current(connection)?)).await;
    match current {
        Ok(true) => Ok(()),
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
///
/// By method, route and status; latencies in seconds. No path, tenant or key is named.
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
///
/// It is that of the version that runs, and the same for every caller.
#[utoipa::path(operation_id = "get_openapi", tag = "service", responses(
    (status = 200, description = "OpenAPI 3.1", body = serde_json::Value, content_type = "application/json",
     example = json!({"openapi": "3.1.0"}))))]
#[get("/openapi.json")]
async fn get_openapi() -> HttpResponse {
    HttpResponse::Ok().content_type("application/json").body(openapi::text())
}

/// This document, to browse and to try
///
/// A page for a browser; `/docs` redirects to it.
#[utoipa::path(operation_id = "get_docs", tag = "service", responses(
    (status = 200, description = "The pages, which are under `/docs/`", body = String, content_type = "text/html",
     example = "<!doctype html>"),
    (status = 308, description = "To them",
     headers(("Location" = String, description = "Where the pages are")))))]
#[get("/docs")]
async fn get_docs() -> HttpResponse {
    HttpResponse::PermanentRedirect().insert_header((LOCATION, "/docs/")).finish()
}
