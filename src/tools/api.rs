//! Capabilities over HTTP (corpora, "Retrieve tools").

use actix_web::http::header::ETAG;
use actix_web::middleware::from_fn;
use actix_web::{HttpResponse, get, post, put, web};
use serde::Deserialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;
use utoipa_actix_web::service_config::ServiceConfig;
use uuid::Uuid;

use super::call::{Called, NewCall};
use super::capability::{Capability, NewCapability};
use super::runner;
use crate::app::App;
use crate::corpora::entry::{Id, Status};
use crate::ctx::Ctx;
use crate::error::{Error, Result};
use crate::http::auth::{Admin, ReadOrRetrieve, Retrieve};
use crate::http::body::DEFAULT_LIMIT;
use crate::http::conditional::{self, ConditionHeaders, Conditions};
use crate::http::idempotency::{IdempotencyKey, once};
use crate::http::json::{Body, OptionalBody};
use crate::http::page::{self, Page, PageQuery};
use crate::http::query::Query;
use crate::precondition::Preconditions;
use crate::routes::ops;
use crate::routes::version::{Kind, Version, Versioned, name};

/// Registers the operations.
pub fn configure(config: &mut ServiceConfig) {
    config
        .service(call_tool)
        .service(list_capabilities)
        .service(get_capability)
        .service(find_capability)
        .service(put_capability);
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
#[utoipa::path(operation_id = "list_capabilities", tag = "corpora", params(PageQuery),
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
///
/// `slate_retrieve/1` is built in.
#[utoipa::path(operation_id = "get_capability", tag = "corpora",
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
    find(&app, &ctx, path.into_inner(), &conditions).await
}

/// Find a version of a capability
///
/// The same as in the catalogue, for runtimes that look here.
#[utoipa::path(operation_id = "find_capability", tag = "corpora",
    params(("capability_id" = String, Path, description = "The capability's id", example = "weather"),
           ("version" = String, Path, description = "The version", example = "1"), ConditionHeaders),
    responses((status = 200, description = "The version", body = CapabilityView,
        headers(("ETag" = String, description = "Changes with the version")))))]
#[get("/capabilities/{capability_id}/versions/{version}")]
async fn find_capability(
    ReadOrRetrieve(ctx): ReadOrRetrieve,
    app: web::Data<App>,
    path: web::Path<(String, String)>,
    Conditions(conditions): Conditions,
) -> Result<HttpResponse> {
    find(&app, &ctx, path.into_inner(), &conditions).await
}

async fn find(
    app: &App,
    ctx: &Ctx,
    (id, version): (String, String),
    conditions: &Preconditions,
) -> Result<HttpResponse> {
    let found = match Capability::built_in_version(&id, &version) {
        Some(built_in) => built_in,
        None => app.db.tenant(ctx.tenant, move |tx| ops::get(tx, Kind::Capability, &id, &version)).await?,
    };
    conditional::json(conditions, &found.etag(), &found.view(Kind::Capability))
}

/// Make a version of a capability
///
/// A draft may be set anew. A version that was published keeps what it says for ever: all that it can still become, with
/// the same body otherwise, is deprecated, or published again.
#[utoipa::path(operation_id = "put_capability", tag = "corpora",
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

/// A call of a tool.
#[derive(Default, Deserialize, ToSchema)]
#[schema(as = ToolCall, example = json!({"arguments": {"city": "Oslo"}}))]
#[serde(deny_unknown_fields)]
struct CallBody {
    /// Members of the payload, which win over those of the goal and of earlier slots.
    #[serde(default)]
    #[schema(value_type = Option<Object>, example = json!({"city": "Oslo"}))]
    arguments: Option<Map<String, Value>>,
    /// The slot that takes the answer; left out, the capability's id.
    #[serde(default)]
    #[schema(value_type = Option<String>, example = "weather")]
    stage: Option<Id>,
    /// The version; left out, the one that the session's route lists, or else the only one that is published.
    #[serde(default)]
    #[schema(value_type = Option<String>, example = "1")]
    version: Option<Version>,
}

/// Call a tool in a session
///
/// The payload is the session's goal, the slots that the input schema declares, and the arguments; it is checked against the
/// input schema before anything is sent. The answer is projected onto the output schema's properties, checked, and stored in the
/// session's slot. `slate_retrieve` is built in: it runs `files`, `subfolders`, `metatag` and `glob` over the corpora of the
/// route's scope that lie in slates, or over the one that `corpus` names. A capability whose `invoke` is empty does nothing.
#[utoipa::path(operation_id = "call_tool", tag = "sessions",
    params(("id" = Uuid, Path, description = "The session's id"),
           ("capability_id" = String, Path, description = "The capability's id", example = "weather"), IdempotencyKey),
    request_body = Option<CallBody>,
    responses((status = 200, description = "What came of it", body = Called),
              (status = 409, description = "The session is finished"),
              (status = 502, description = "The tool cannot be reached, or does not answer as it should")))]
#[post("/sessions/{id}/tools/{capability_id}", wrap = "from_fn(once::<Retrieve, DEFAULT_LIMIT>)")]
async fn call_tool(
    Retrieve(ctx): Retrieve,
    app: web::Data<App>,
    path: web::Path<(Uuid, String)>,
    OptionalBody(body): OptionalBody<CallBody>,
) -> Result<HttpResponse> {
    let CallBody { arguments, stage, version } = body.unwrap_or_default();
    let new = NewCall { arguments: arguments.unwrap_or_default(), stage, version };
    let called = runner::call(&app, &ctx, path.0, &path.1, new).await?;
    Ok(HttpResponse::Ok().json(called))
}
