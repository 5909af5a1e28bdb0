//! Records over HTTP.

use actix_web::{HttpResponse, get, post, web};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_actix_web::service_config::ServiceConfig;
use uuid::Uuid;

use super::contract::ItemRecord;
use super::ops::{self, Verification};
use super::record::parse_provenance_id;
use crate::app::App;
use crate::error::{Error, Result};
use crate::http::auth::{ReadOrRetrieve, Retrieve};
use crate::http::page::{self, Page, PageQuery};
use crate::http::query::Query;

/// Adds the routes.
pub fn configure(config: &mut ServiceConfig) {
    config.service(get_provenance).service(list_session_provenance).service(verify_session);
}

/// One item, or a page of all items of a record.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
enum Provenance {
    /// One item.
    Item(Box<ItemRecord>),
    /// All items of a record.
    Items(Page<ItemRecord>),
}

/// Tell where an item came from
///
/// `<record>.<n>` gives the whole output contract of one item, its data by reference; `<record>` alone gives a page of
/// all items of that response. Records outlive the versions that they name: what is no longer kept says so.
#[utoipa::path(operation_id = "get_provenance", tag = "provenance",
    params(("id" = String, Path, description = "`<record>.<n>`, or `<record>`",
        example = "01937b2e-7c1a-7d3f-9a51-0c4f4d1e2a3b.1"), PageQuery),
    responses((status = 200, description = "The item, or a page of items", body = Provenance)))]
#[get("/provenance/{id}")]
async fn get_provenance(
    ReadOrRetrieve(ctx): ReadOrRetrieve,
    app: web::Data<App>,
    id: web::Path<String>,
    Query(PageQuery { limit, cursor }): Query<PageQuery>,
) -> Result<HttpResponse> {
    let (record, n) = parse_provenance_id(&id).ok_or_else(Error::not_found)?;
    let after: i64 = page::open(cursor.as_deref())?.unwrap_or(0);
    let found = app
        .db
        .tenant(ctx.tenant, move |tx| match n {
            Some(n) => ops::expand(tx, &ctx, record, n).map(|item| Provenance::Item(Box::new(item))),
            None => {
                let rows = ops::items(tx, &ctx, record, after, limit.rows())?;
                let next = after + limit.items() as i64;
                Ok(Provenance::Items(Page::cut(rows, limit, |_| next)))
            }
        })
        .await?;
    Ok(HttpResponse::Ok().json(found))
}

/// List what a session was shown
///
/// Every item of every round, in order, with its whole output contract. They stay when the session goes.
#[utoipa::path(operation_id = "list_session_provenance", tag = "provenance",
    params(("id" = Uuid, Path, description = "The session's id", example = "01890a5d-ac96-774b-bcce-b302099a8057"), PageQuery),
    responses((status = 200, description = "A page of items", body = Page<ItemRecord>)))]
#[get("/sessions/{id}/provenance")]
async fn list_session_provenance(
    ReadOrRetrieve(ctx): ReadOrRetrieve,
    app: web::Data<App>,
    session: web::Path<Uuid>,
    Query(PageQuery { limit, cursor }): Query<PageQuery>,
) -> Result<HttpResponse> {
    let after: Option<ops::Place> = page::open(cursor.as_deref())?;
    if after.is_some_and(|(position, n)| position < 1 || n < 1) {
        return Err(Error::invalid_at("/cursor", "is not a cursor of this list"));
    }
    let rows = app
        .db
        .tenant(ctx.tenant, move |tx| ops::session_items(tx, &ctx, *session, after, limit.rows()))
        .await?;
    Ok(HttpResponse::Ok().json(Page::cut(rows, limit, |(place, _)| *place).map(|(_, item)| item)))
}

/// Verify a session's records
///
/// Recomputes every hash of the session's chain from the records and the versions that they name, and compares its end
/// with the session's seal: a record that was altered, removed or added is found.
#[utoipa::path(operation_id = "verify_session", tag = "provenance",
    params(("id" = Uuid, Path, description = "The session's id", example = "01890a5d-ac96-774b-bcce-b302099a8057")),
    responses((status = 200, description = "What was found", body = Verification)))]
#[post("/sessions/{id}/verify")]
async fn verify_session(
    Retrieve(ctx): Retrieve,
    app: web::Data<App>,
    session: web::Path<Uuid>,
) -> Result<HttpResponse> {
    let found = app.db.tenant(ctx.tenant, move |tx| ops::verify_session(tx, &ctx, *session)).await?;
    Ok(HttpResponse::Ok().json(found))
}
