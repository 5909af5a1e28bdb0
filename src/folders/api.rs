//! `/v1/slates/{slate}/folders`, and the deletion of a slate with all in it.

use actix_web::{HttpResponse, delete, get, patch, put, web};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_actix_web::service_config::ServiceConfig;

use super::folder::Folder;
use super::ops::{self, NewSettings};
use crate::app::App;
use crate::ctx::Ctx;
use crate::error::{Error, Result};
use crate::http::auth::{ReadOrRetrieve, Write};
use crate::http::conditional::{ConditionHeaders, Conditions};
use crate::http::json::{Body, OptionalBody};
use crate::http::page::{self, Page, PageQuery};
use crate::http::query::Query;
use crate::item::IndexEntry;
use crate::path::FolderPath;

/// Registers the operations.
pub fn configure(config: &mut ServiceConfig) {
    config
        .service(delete_slate)
        .service(get_root_folder)
        .service(get_folder)
        .service(put_folder)
        .service(move_folder)
        .service(delete_folder);
}

/// The index of a folder, one page of it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = FolderIndex)]
struct IndexView {
    /// The folder's path from the slate's root.
    #[schema(example = "docs")]
    path: String,
    /// Its files and, with a `/` after their name, its folders, in the byte order of what is printed.
    items: Vec<IndexEntry>,
    /// Gives the next page; null on the last one.
    next_cursor: Option<String>,
}

/// Where a folder goes.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct MoveFolder {
    /// Its new path from the slate's root.
    #[schema(example = "archive/docs")]
    path: String,
}

/// What goes with a folder.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct DeleteFolder {
    /// Delete all below it too; without it only an empty folder is deleted.
    #[param(value_type = bool, default = false)]
    recursive: bool,
    /// Scrub the bytes of all that is deleted at once, where no other version has them.
    #[param(value_type = bool, default = false)]
    purge: bool,
}

/// What goes with a slate.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct DeleteSlate {
    /// Scrub the bytes of all its files at once, where no other version has them.
    #[param(value_type = bool, default = false)]
    purge: bool,
}

/// Delete a slate
///
/// With all its folders and files. Their versions can still be retrieved by citation for the slate's retention.
#[utoipa::path(operation_id = "delete_slate", tag = "slates",
    params(("slate" = String, Path, description = "The slate's name", example = "Knowledge"), DeleteSlate, ConditionHeaders),
    responses((status = 204, description = "It is gone")))]
#[delete("/slates/{slate}")]
async fn delete_slate(
    Write(ctx): Write,
    app: web::Data<App>,
    slate: web::Path<String>,
    Query(how): Query<DeleteSlate>,
    Conditions(conditions): Conditions,
) -> Result<HttpResponse> {
    app.db.tenant(ctx.tenant, move |tx| ops::delete_slate(tx, &ctx, &slate, how.purge, &conditions)).await?;
    Ok(HttpResponse::NoContent().finish())
}

/// Get the index of a slate's root folder
///
/// As that of any other folder: names, and sizes in bytes.
#[utoipa::path(operation_id = "get_root_folder", tag = "slates",
    params(("slate" = String, Path, description = "The slate's name", example = "Knowledge"), PageQuery),
    responses((status = 200, description = "A page of the index", body = IndexView)))]
#[get("/slates/{slate}/folders")]
async fn get_root_folder(
    ReadOrRetrieve(ctx): ReadOrRetrieve,
    app: web::Data<App>,
    slate: web::Path<String>,
    Query(page): Query<PageQuery>,
) -> Result<HttpResponse> {
    index(&app, ctx, slate.into_inner(), FolderPath::root(), page).await
}

/// Get the index of a folder
///
/// Names and sizes in bytes. The size of a folder is the sum of all below it, null where that is more than 10,000 files.
#[utoipa::path(operation_id = "get_folder", tag = "slates",
    params(("slate" = String, Path, description = "The slate's name", example = "Knowledge"),
           ("path" = String, Path, description = "The folder's path", example = "docs/research"), PageQuery),
    responses((status = 200, description = "A page of the index", body = IndexView)))]
#[get("/slates/{slate}/folders/{path:.*}")]
async fn get_folder(
    ReadOrRetrieve(ctx): ReadOrRetrieve,
    app: web::Data<App>,
    at: web::Path<(String, String)>,
    Query(page): Query<PageQuery>,
) -> Result<HttpResponse> {
    let (slate, path) = at.into_inner();
    let path = FolderPath::parse_entry(&path).map_err(|_| Error::not_found())?;
    index(&app, ctx, slate, path, page).await
}

async fn index(
    app: &App,
    ctx: Ctx,
    slate: String,
    path: FolderPath,
    page: PageQuery,
) -> Result<HttpResponse> {
    let after: Option<String> = page::open(page.cursor.as_deref())?;
    let limit = page.limit;
    let (path, rows) = app
        .db
        .tenant(ctx.tenant, move |tx| ops::index_at(tx, &ctx, &slate, &path, after.as_deref(), limit.rows()))
        .await?;
    let Page { items, next_cursor } = Page::cut(rows, limit, |last| last.name.clone());
    Ok(HttpResponse::Ok().json(IndexView { path, items, next_cursor }))
}

/// Make a folder, or set its settings
///
/// The body gives all settings; what it leaves out is set to its default. Folders above come into being.
#[utoipa::path(operation_id = "put_folder", tag = "slates",
    params(("slate" = String, Path, description = "The slate's name", example = "Knowledge"),
           ("path" = String, Path, description = "The folder's path", example = "docs/research")),
    request_body = Option<NewSettings>,
    responses((status = 200, description = "It was there", body = Folder),
              (status = 201, description = "It was made", body = Folder)))]
#[put("/slates/{slate}/folders/{path:.*}")]
async fn put_folder(
    Write(ctx): Write,
    app: web::Data<App>,
    at: web::Path<(String, String)>,
    OptionalBody(new): OptionalBody<NewSettings>,
) -> Result<HttpResponse> {
    let (slate, path) = at.into_inner();
    let path = in_url(&path)?;
    let new = new.unwrap_or_default();
    let (folder, made) = app.db.tenant(ctx.tenant, move |tx| ops::put(tx, &ctx, &slate, &path, &new)).await?;
    Ok(if made { HttpResponse::Created().json(folder) } else { HttpResponse::Ok().json(folder) })
}

/// Move a folder
///
/// With all below it. Every file keeps its identity and its history, and has a new version at its new path.
#[utoipa::path(operation_id = "move_folder", tag = "slates",
    params(("slate" = String, Path, description = "The slate's name", example = "Knowledge"),
           ("path" = String, Path, description = "The folder's path", example = "docs")),
    request_body = MoveFolder,
    responses((status = 200, description = "It moved", body = Folder)))]
#[patch("/slates/{slate}/folders/{path:.*}")]
async fn move_folder(
    Write(ctx): Write,
    app: web::Data<App>,
    at: web::Path<(String, FolderPath)>,
    Body(to): Body<MoveFolder>,
) -> Result<HttpResponse> {
    let (slate, from) = at.into_inner();
    let to = FolderPath::parse(&to.path).map_err(|error| Error::invalid_at("/path", error.to_string()))?;
    let folder = app.db.tenant(ctx.tenant, move |tx| ops::relocate(tx, &ctx, &slate, &from, &to)).await?;
    Ok(HttpResponse::Ok().json(folder))
}

/// Delete a folder
///
/// An empty one; with `recursive` all below it too, in one transaction. 409 where it is not empty.
#[utoipa::path(operation_id = "delete_folder", tag = "slates",
    params(("slate" = String, Path, description = "The slate's name", example = "Knowledge"),
           ("path" = String, Path, description = "The folder's path", example = "docs"), DeleteFolder),
    responses((status = 204, description = "It is gone")))]
#[delete("/slates/{slate}/folders/{path:.*}")]
async fn delete_folder(
    Write(ctx): Write,
    app: web::Data<App>,
    at: web::Path<(String, FolderPath)>,
    Query(how): Query<DeleteFolder>,
) -> Result<HttpResponse> {
    let (slate, path) = at.into_inner();
    app.db
        .tenant(ctx.tenant, move |tx| ops::delete(tx, &ctx, &slate, &path, how.recursive, how.purge))
        .await?;
    Ok(HttpResponse::NoContent().finish())
}

/// The path of a folder that is to be made, as the URL names it.
fn in_url(path: &str) -> Result<FolderPath> {
    FolderPath::parse(path).map_err(|error| Error::invalid_at("", format!("the folder's path {error}")))
}
