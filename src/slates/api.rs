//! `/v1/slates`. A slate's DELETE is with the folders, since the whole tree goes with it.

use actix_web::http::header::ETAG;
use actix_web::{HttpResponse, get, put, web};
use utoipa_actix_web::service_config::ServiceConfig;

use super::ops;
use super::slate::{NewSlate, Slate};
use crate::app::App;
use crate::error::Result;
use crate::http::auth::{ReadOrRetrieve, Write};
use crate::http::conditional::{self, ConditionHeaders, Conditions};
use crate::http::json::OptionalBody;
use crate::http::page::{self, Page, PageQuery};
use crate::http::query::Query;

/// Registers the operations.
pub fn configure(config: &mut ServiceConfig) {
    config.service(list_slates).service(get_slate).service(put_slate);
}

/// List slates
///
/// Those that the key may touch, by name.
#[utoipa::path(operation_id = "list_slates", tag = "slates", params(PageQuery),
    responses((status = 200, description = "A page of slates", body = Page<Slate>)))]
#[get("/slates")]
async fn list_slates(
    ReadOrRetrieve(ctx): ReadOrRetrieve,
    app: web::Data<App>,
    Query(page): Query<PageQuery>,
) -> Result<HttpResponse> {
    let after: Option<String> = page::open(page.cursor.as_deref())?;
    let limit = page.limit;
    let rows =
        app.db.tenant(ctx.tenant, move |tx| ops::list(tx, &ctx, after.as_deref(), limit.rows())).await?;
    Ok(HttpResponse::Ok().json(Page::cut(rows, limit, |last| last.name.clone())))
}

/// Get a slate
///
/// Its settings. Its files are listed by folder, below `folders`.
#[utoipa::path(operation_id = "get_slate", tag = "slates",
    params(("slate" = String, Path, description = "The slate's name", example = "Knowledge"), ConditionHeaders),
    responses((status = 200, description = "The slate", body = Slate)))]
#[get("/slates/{slate}")]
async fn get_slate(
    ReadOrRetrieve(ctx): ReadOrRetrieve,
    app: web::Data<App>,
    slate: web::Path<String>,
    Conditions(conditions): Conditions,
) -> Result<HttpResponse> {
    let slate = app.db.tenant(ctx.tenant, move |tx| ops::get(tx, &ctx, &slate)).await?;
    conditional::json(&conditions, &slate.etag(), &slate)
}

/// Make a slate, or set its settings
///
/// The body gives all settings; what it leaves out is set to its default.
#[utoipa::path(operation_id = "put_slate", tag = "slates",
    params(("slate" = String, Path, description = "The slate's name", example = "Knowledge"), ConditionHeaders),
    request_body = Option<NewSlate>,
    responses((status = 200, description = "It was there", body = Slate),
              (status = 201, description = "It was made", body = Slate)))]
#[put("/slates/{slate}")]
async fn put_slate(
    Write(ctx): Write,
    app: web::Data<App>,
    slate: web::Path<String>,
    Conditions(conditions): Conditions,
    OptionalBody(new): OptionalBody<NewSlate>,
) -> Result<HttpResponse> {
    let new = new.unwrap_or_default();
    let (slate, made) = app
        .db
        .tenant(ctx.tenant, move |tx| {
            let there = ops::find_to_set(tx, &ctx, &slate)?;
            conditions.check_write(there.as_ref().map(Slate::etag).as_deref())?;
            ops::put(tx, &ctx, &slate, &new)
        })
        .await?;
    let mut response = if made { HttpResponse::Created() } else { HttpResponse::Ok() };
    Ok(response.insert_header((ETAG, slate.etag())).json(slate))
}
