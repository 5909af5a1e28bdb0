//! Capabilities over HTTP (corpora, "Retrieve tools").

use actix_web::http::header::ETAG;
use actix_web::{HttpResponse, get, put, web};
use utoipa::ToSchema;
use utoipa_actix_web::service_config::ServiceConfig;

use super::capability::{Capability, NewCapability};
use crate::app::App;
use crate::corpora::entry::{Id, Status};
use crate::error::{Error, Result};
use crate::http::auth::{Admin, ReadOrRetrieve};
use crate::http::conditional::{self, ConditionHeaders, Conditions};
use crate::http::json::Body;
use crate::http::page::{self, Page, PageQuery};
use crate::http::query::Query;
use crate::routes::ops;
use crate::routes::version::{Kind, Version, Versioned, name};

/// Registers the operations.
pub fn configure(config: &mut ServiceConfig) {
    config.service(list_capabilities).service(get_capability).service(put_capability);
}

/// A version of a capability, for the OpenAPI document.
#[derive(ToSchema)]
#[schema(as = CapabilityVersion)]
#[allow(dead_code, reason = "it describes JSON")]
struct CapabilityView {
    /// The capability's id.
    #[schema(example = "weather")]
    capability_id: Id,
    /// The version.
    version: Version,
    /// What it says.
    #[serde(flatten)]
    capability: Capability,
    /// Whether it is used.
    status: Status,
    /// When it was made.
    created_at: chrono::DateTime<chrono::Utc>,
    /// When it last changed.
    updated_at: chrono::DateTime<chrono::Utc>,
}

/// List the capabilities
///
/// All versions of those that the tenant made, by id and version.
#[utoipa::path(operation_id = "list_capabilities", tag = "catalog", params(PageQuery),
    responses((status = 200, description = "A page of versions", body = Page<CapabilityView>)))]
#[get("/catalog/capabilities")]
async fn list_capabilities(
    ReadOrRetrieve(ctx): ReadOrRetrieve,
    app: web::Data<App>,
    Query(page): Query<PageQuery>,
) -> Result<HttpResponse> {
    let after: Option<(String, String)> = page::open(page.cursor.as_deref())?;
    let rows = page.limit.rows();
    let rows =
        app.db.tenant(ctx.tenant, move |tx| ops::list(tx, Kind::Capability, after.as_ref(), rows)).await?;
    let page = Page::cut(rows, page.limit, Versioned::key);
    Ok(HttpResponse::Ok().json(page.map(|row| row.view(Kind::Capability))))
}

/// Get a version of a capability
#[utoipa::path(operation_id = "get_capability", tag = "catalog",
    params(("capability_id" = String, Path, description = "The capability's id", example = "weather"),
           ("version" = String, Path, description = "The version", example = "1"), ConditionHeaders),
    responses((status = 200, description = "The version", body = CapabilityView,
        headers(("ETag" = String, description = "Changes with the version")))))]
#[get("/catalog/capabilities/{capability_id}/{version}")]
async fn get_capability(
    ReadOrRetrieve(ctx): ReadOrRetrieve,
    app: web::Data<App>,
    path: web::Path<(String, String)>,
    Conditions(conditions): Conditions,
) -> Result<HttpResponse> {
    let found = app.db.tenant(ctx.tenant, move |tx| ops::get(tx, Kind::Capability, &path.0, &path.1)).await?;
    conditional::json(&conditions, &found.etag(), &found.view(Kind::Capability))
}

/// Make a version of a capability
///
/// A draft may be set anew. A version that was published keeps what it says for ever: all that it can still become, with
/// the same body otherwise, is deprecated, or published again.
#[utoipa::path(operation_id = "put_capability", tag = "catalog",
    params(("capability_id" = String, Path, description = "The capability's id", example = "weather"),
           ("version" = String, Path, description = "The version", example = "1"), ConditionHeaders),
    request_body = NewCapability,
    responses((status = 200, description = "It was there", body = CapabilityView),
              (status = 201, description = "It was made", body = CapabilityView),
              (status = 409, description = "It was published, and keeps what it says")))]
#[put("/catalog/capabilities/{capability_id}/{version}")]
async fn put_capability(
    Admin(ctx): Admin,
    app: web::Data<App>,
    path: web::Path<(String, String)>,
    Conditions(conditions): Conditions,
    Body(new): Body<NewCapability>,
) -> Result<HttpResponse> {
    let (id, version) = name(&path.0, &path.1)?;
    let (capability, status) = new.check(&id, &version)?;
    let document = serde_json::to_value(&capability).map_err(Error::internal)?;
    let (found, made) = app
        .db
        .tenant(ctx.tenant, move |tx| {
            ops::put(tx, &ctx, Kind::Capability, (&id, &version), &document, status, &conditions)
        })
        .await?;
    let mut response = if made { HttpResponse::Created() } else { HttpResponse::Ok() };
    Ok(response.insert_header((ETAG, found.etag())).json(found.view(Kind::Capability)))
}
