//! The routes of the catalogue over HTTP (corpora, "Route").

use actix_web::http::header::ETAG;
use actix_web::{HttpResponse, get, put, web};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};
use utoipa_actix_web::service_config::ServiceConfig;

use super::ops;
use super::route::{NewRoute, Route};
use super::version::{Kind, Version, Versioned, name};
use crate::app::App;
use crate::corpora::entry::{Id, Status};
use crate::error::{Error, Result};
use crate::http::auth::{Admin, ReadOrRetrieve};
use crate::http::conditional::{self, ConditionHeaders, Conditions};
use crate::http::json::Body;
use crate::http::page::{self, Page, PageQuery};
use crate::http::query::Query;

/// Registers the operations.
pub fn configure(config: &mut ServiceConfig) {
    config.service(list_routes).service(find_route).service(get_route).service(put_route);
}

/// A version of a route, for the OpenAPI document.
#[derive(ToSchema)]
#[schema(as = RouteVersion)]
#[allow(dead_code, reason = "it describes JSON")]
struct RouteView {
    /// The route's id.
    #[schema(example = "policy_memo")]
    route_id: Id,
    /// The version.
    route_version: Version,
    /// What it says.
    #[serde(flatten)]
    route: Route,
    /// Whether it is used.
    status: Status,
    /// When it was made.
    created_at: chrono::DateTime<chrono::Utc>,
    /// When it last changed.
    updated_at: chrono::DateTime<chrono::Utc>,
}

/// List the routes
///
/// All versions, by id and version.
#[utoipa::path(operation_id = "list_routes", tag = "corpora", params(PageQuery),
    responses((status = 200, description = "A page of versions", body = Page<RouteView>)))]
#[get("/catalog/routes")]
async fn list_routes(
    ReadOrRetrieve(ctx): ReadOrRetrieve,
    app: web::Data<App>,
    Query(page): Query<PageQuery>,
) -> Result<HttpResponse> {
    let after: Option<(String, String)> = page::open(page.cursor.as_deref())?;
    let rows = page.limit.rows();
    let rows = app.db.tenant(ctx.tenant, move |tx| ops::list(tx, Kind::Route, after.as_ref(), rows)).await?;
    let page = Page::cut(rows, page.limit, Versioned::key);
    Ok(HttpResponse::Ok().json(page.map(|row| row.view(Kind::Route))))
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct FindQuery {
    /// The version; left out, the only one that is published.
    #[param(example = "1")]
    route_version: Option<String>,
}

/// Find a version of a route
///
/// The same as by its path, for runtimes that name the version in the query.
#[utoipa::path(operation_id = "find_route", tag = "corpora",
    params(("route_id" = String, Path, description = "The route's id", example = "policy_memo"), FindQuery, ConditionHeaders),
    responses((status = 200, description = "The version", body = RouteView,
        headers(("ETag" = String, description = "Changes with the version")))))]
#[get("/catalog/routes/{route_id}")]
async fn find_route(
    ReadOrRetrieve(ctx): ReadOrRetrieve,
    app: web::Data<App>,
    id: web::Path<String>,
    Query(query): Query<FindQuery>,
    Conditions(conditions): Conditions,
) -> Result<HttpResponse> {
    let found = app
        .db
        .tenant(ctx.tenant, move |tx| match &query.route_version {
            Some(version) => ops::get(tx, Kind::Route, &id, version),
            None => ops::only_published(tx, Kind::Route, &id)?.ok_or_else(Error::not_found),
        })
        .await?;
    conditional::json(&conditions, &found.etag(), &found.view(Kind::Route))
}

/// Get a version of a route
///
/// What it says, its status, and when it was made.
#[utoipa::path(operation_id = "get_route", tag = "corpora",
    params(("route_id" = String, Path, description = "The route's id", example = "policy_memo"),
           ("route_version" = String, Path, description = "The version", example = "1"), ConditionHeaders),
    responses((status = 200, description = "The version", body = RouteView,
        headers(("ETag" = String, description = "Changes with the version")))))]
#[get("/catalog/routes/{route_id}/{route_version}")]
async fn get_route(
    ReadOrRetrieve(ctx): ReadOrRetrieve,
    app: web::Data<App>,
    path: web::Path<(String, String)>,
    Conditions(conditions): Conditions,
) -> Result<HttpResponse> {
    let found = app.db.tenant(ctx.tenant, move |tx| ops::get(tx, Kind::Route, &path.0, &path.1)).await?;
    conditional::json(&conditions, &found.etag(), &found.view(Kind::Route))
}

/// Make a version of a route
///
/// A draft may be set anew. A version that was published keeps what it says for ever: all that it can still become, with
/// the same body otherwise, is deprecated, or published again.
#[utoipa::path(operation_id = "put_route", tag = "corpora",
    params(("route_id" = String, Path, description = "The route's id", example = "policy_memo"),
           ("route_version" = String, Path, description = "The version", example = "1"), ConditionHeaders),
    request_body = NewRoute,
    responses((status = 200, description = "It was there", body = RouteView),
              (status = 201, description = "It was made", body = RouteView),
              (status = 409, description = "It was published, and keeps what it says")))]
#[put("/catalog/routes/{route_id}/{route_version}")]
async fn put_route(
    Admin(ctx): Admin,
    app: web::Data<App>,
    path: web::Path<(String, String)>,
    Conditions(conditions): Conditions,
    Body(new): Body<NewRoute>,
) -> Result<HttpResponse> {
    let (id, version) = name(&path.0, &path.1)?;
    let (route, status) = new.check(&id, &version)?;
    let document = serde_json::to_value(&route).map_err(Error::internal)?;
    let (found, made) = app
        .db
        .tenant(ctx.tenant, move |tx| {
            ops::put(tx, &ctx, Kind::Route, (&id, &version), &document, status, &conditions)
        })
        .await?;
    let mut response = if made { HttpResponse::Created() } else { HttpResponse::Ok() };
    Ok(response.insert_header((ETAG, found.etag())).json(found.view(Kind::Route)))
}
