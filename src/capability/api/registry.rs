//! Registered sources over HTTP.

use actix_web::http::header::ETAG;
use actix_web::{HttpResponse, delete, get, put, web};
use chrono::{DateTime, Utc};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_actix_web::service_config::ServiceConfig;

use crate::app::App;
use crate::capability::ops::registry as ops;
use crate::capability::registry::api::Api;
use crate::capability::registry::database::Database;
use crate::capability::registry::{Listed, Registered, Registration, SourceKind};
use crate::corpora::entry::Id;
use crate::ctx::Ctx;
use crate::error::{Error, Result};
use crate::http::auth::Admin;
use crate::http::conditional::{self, ConditionHeaders, Conditions};
use crate::http::json::Body;
use crate::http::page::{self, Page, PageQuery};
use crate::http::query::Query;
use crate::precondition::Preconditions;

/// Registers the operations.
pub fn configure(config: &mut ServiceConfig) {
    config
        .service(list_sources)
        .service(get_api_source)
        .service(put_api_source)
        .service(delete_api_source)
        .service(get_database_source)
        .service(put_database_source)
        .service(delete_database_source);
}

/// A registered source, in a list.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RegisteredSource)]
struct ListedView {
    /// Its kind.
    kind: SourceKind,
    /// What targets name it by.
    #[schema(example = "weather")]
    name: String,
    /// When it was first registered.
    created_at: DateTime<Utc>,
    /// When it last changed.
    updated_at: DateTime<Utc>,
}

impl From<Listed> for ListedView {
    fn from(Listed { kind, name, created_at, updated_at }: Listed) -> ListedView {
        ListedView { kind, name, created_at, updated_at }
    }
}

/// A registered API.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ApiSource)]
struct ApiView {
    /// What targets name it by.
    #[schema(example = "weather")]
    name: Id,
    /// What was registered.
    #[serde(flatten)]
    definition: Api,
    /// When it was first registered.
    created_at: DateTime<Utc>,
    /// When it last changed.
    updated_at: DateTime<Utc>,
}

/// A registered database.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DatabaseSource)]
struct DatabaseView {
    /// What targets name it by.
    #[schema(example = "shop")]
    name: Id,
    /// What was registered.
    #[serde(flatten)]
    definition: Database,
    /// When it was first registered.
    created_at: DateTime<Utc>,
    /// When it last changed.
    updated_at: DateTime<Utc>,
}

impl From<Registered<Api>> for ApiView {
    fn from(Registered { name, definition, created_at, updated_at, .. }: Registered<Api>) -> ApiView {
        ApiView { name, definition, created_at, updated_at }
    }
}

impl From<Registered<Database>> for DatabaseView {
    fn from(
        Registered { name, definition, created_at, updated_at, .. }: Registered<Database>,
    ) -> DatabaseView {
        DatabaseView { name, definition, created_at, updated_at }
    }
}

/// List the sources
///
/// All registered APIs, then all registered databases, by name.
#[utoipa::path(operation_id = "list_sources", tag = "administration", params(PageQuery),
    responses((status = 200, description = "A page of sources", body = Page<ListedView>)))]
#[get("/sources")]
async fn list_sources(
    Admin(ctx): Admin,
    app: web::Data<App>,
    Query(page): Query<PageQuery>,
) -> Result<HttpResponse> {
    let after: Option<(String, String)> = page::open(page.cursor.as_deref())?;
    let (after, limit) = (after.unwrap_or_default(), page.limit);
    let rows = app.db.tenant(ctx.tenant, move |tx| ops::list(tx, &after, limit.rows())).await?;
    let page = Page::cut(rows, limit, |last| (last.kind.as_str().to_owned(), last.name.clone()));
    Ok(HttpResponse::Ok().json(page.map(ListedView::from)))
}

/// Get an API
///
/// What was registered. Secrets are named in it, and never shown.
#[utoipa::path(operation_id = "get_api_source", tag = "administration",
    params(("name" = String, Path, description = "The API's name", example = "weather"), ConditionHeaders),
    responses((status = 200, description = "The API", body = ApiView,
        headers(("ETag" = String, description = "Changes with the registration")))))]
#[get("/sources/apis/{name}")]
async fn get_api_source(
    Admin(ctx): Admin,
    app: web::Data<App>,
    name: web::Path<String>,
    Conditions(conditions): Conditions,
) -> Result<HttpResponse> {
    found::<Api, ApiView>(&app, ctx, name.into_inner(), &conditions).await
}

/// Register an API, or replace one
///
/// The body gives the whole registration. Then `{api, path, query?}` and `api:<name>/<path>` are targets of `retrieve`:
/// a GET below the base URL, with the secret that `auth` names.
#[utoipa::path(operation_id = "put_api_source", tag = "administration",
    params(("name" = String, Path, description = "The API's name", example = "weather"), ConditionHeaders),
    request_body = Api,
    responses((status = 200, description = "It was there", body = ApiView),
              (status = 201, description = "It is registered", body = ApiView)))]
#[put("/sources/apis/{name}")]
async fn put_api_source(
    Admin(ctx): Admin,
    app: web::Data<App>,
    name: web::Path<String>,
    Conditions(conditions): Conditions,
    Body(new): Body<Api>,
) -> Result<HttpResponse> {
    registered::<Api, ApiView>(&app, ctx, &name, conditions, new).await
}

/// Take an API away
///
/// Targets that name it find nothing from then on.
#[utoipa::path(operation_id = "delete_api_source", tag = "administration",
    params(("name" = String, Path, description = "The API's name", example = "weather"), ConditionHeaders),
    responses((status = 204, description = "Taken away")))]
#[delete("/sources/apis/{name}")]
async fn delete_api_source(
    Admin(ctx): Admin,
    app: web::Data<App>,
    name: web::Path<String>,
    Conditions(conditions): Conditions,
) -> Result<HttpResponse> {
    app.db.tenant(ctx.tenant, move |tx| ops::delete::<Api>(tx, &name, &conditions)).await?;
    Ok(HttpResponse::NoContent().finish())
}

/// Get a database
///
/// What was registered. Its password is named in it, and never shown.
#[utoipa::path(operation_id = "get_database_source", tag = "administration",
    params(("name" = String, Path, description = "The database's name", example = "shop"), ConditionHeaders),
    responses((status = 200, description = "The database", body = DatabaseView,
        headers(("ETag" = String, description = "Changes with the registration")))))]
#[get("/sources/databases/{name}")]
async fn get_database_source(
    Admin(ctx): Admin,
    app: web::Data<App>,
    name: web::Path<String>,
    Conditions(conditions): Conditions,
) -> Result<HttpResponse> {
    found::<Database, DatabaseView>(&app, ctx, name.into_inner(), &conditions).await
}

/// Register a database, or replace one
///
/// The body gives the whole registration. Then `{database, table, key}`, `database:<name>/<table>/<key>` and
/// `{database, query, params}` are targets of `retrieve`, for the tables and the queries that are registered: in a
/// transaction that can only read, with a time limit.
#[utoipa::path(operation_id = "put_database_source", tag = "administration",
    params(("name" = String, Path, description = "The database's name", example = "shop"), ConditionHeaders),
    request_body(content = Database, example = json!({
        "connection": {"host": "db.example", "dbname": "shop", "user": "reader", "password": "shop-password"},
        "tables": {"orders": {"key": "id", "columns": ["id", "status", "total"], "modified": "updated_at"}},
        "queries": {"of_customer": {"sql": "select id, total from orders where customer = $1 order by id",
                                    "params": [{"name": "customer", "type": "text"}]}}})),
    responses((status = 200, description = "It was there", body = DatabaseView),
              (status = 201, description = "It is registered", body = DatabaseView)))]
#[put("/sources/databases/{name}")]
async fn put_database_source(
    Admin(ctx): Admin,
    app: web::Data<App>,
    name: web::Path<String>,
    Conditions(conditions): Conditions,
    Body(new): Body<Database>,
) -> Result<HttpResponse> {
    registered::<Database, DatabaseView>(&app, ctx, &name, conditions, new).await
}

/// Take a database away
///
/// Targets that name it find nothing from then on. Nothing of the database itself changes.
#[utoipa::path(operation_id = "delete_database_source", tag = "administration",
    params(("name" = String, Path, description = "The database's name", example = "shop"), ConditionHeaders),
    responses((status = 204, description = "Taken away")))]
#[delete("/sources/databases/{name}")]
async fn delete_database_source(
    Admin(ctx): Admin,
    app: web::Data<App>,
    name: web::Path<String>,
    Conditions(conditions): Conditions,
) -> Result<HttpResponse> {
    app.db.tenant(ctx.tenant, move |tx| ops::delete::<Database>(tx, &name, &conditions)).await?;
    Ok(HttpResponse::NoContent().finish())
}

async fn found<T, V>(app: &App, ctx: Ctx, name: String, conditions: &Preconditions) -> Result<HttpResponse>
where
    T: Registration + Send + 'static,
    V: From<Registered<T>> + Serialize,
{
    let found = app.db.tenant(ctx.tenant, move |tx| ops::get::<T>(tx, &name)).await?;
    let etag = found.etag();
    conditional::json(conditions, &etag, &V::from(found))
}

async fn registered<T, V>(
    app: &App,
    ctx: Ctx,
    name: &str,
    conditions: Preconditions,
    new: T,
) -> Result<HttpResponse>
where
    T: Registration + Send + 'static,
    V: From<Registered<T>> + Serialize,
{
    let name =
        Id::parse(name).map_err(|error| Error::invalid_at("", format!("the source's name {error}")))?;
    let (source, made) =
        app.db.tenant(ctx.tenant, move |tx| ops::put(tx, &ctx, &name, &new, &conditions)).await?;
    let mut response = if made { HttpResponse::Created() } else { HttpResponse::Ok() };
    let etag = source.etag();
    Ok(response.insert_header((ETAG, etag)).json(V::from(source)))
}
