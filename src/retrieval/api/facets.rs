//! Facets over HTTP.

use actix_web::{HttpResponse, get, web};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::app::App;
use crate::error::{Error, Result};
use crate::http::auth::ReadOrRetrieve;
use crate::http::page::{self, Limit, Page};
use crate::http::query::Query;
use crate::path::FolderPath;
use crate::retrieval::facets::{Facet, MAX_VALUES};
use crate::retrieval::ops::facets::{Asked, facets};

/// Which metatags are told of.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct FacetQuery {
    /// The folder; left out, the slate's root.
    #[serde(default)]
    #[param(value_type = Option<String>, example = "docs")]
    folder: Option<FolderPath>,
    /// Whether the folders below are looked at as well.
    #[serde(default)]
    #[param(value_type = bool, default = false)]
    recursive: bool,
    /// How many values of each metatag are told, at most 100.
    #[serde(default)]
    #[param(value_type = u32, minimum = 0, maximum = 100, default = 10)]
    values: Option<i64>,
    /// How many metatags there are on a page.
    #[serde(default)]
    #[param(value_type = Option<u32>, minimum = 1, maximum = 1000, default = 100)]
    limit: Limit,
    /// The `next_cursor` of the page before.
    #[serde(default)]
    #[param(min_length = 1)]
    cursor: Option<String>,
}

/// The metatags of a folder's files.
#[derive(Serialize, ToSchema)]
#[schema(as = Facets)]
struct FacetsView {
    /// The folder.
    #[schema(example = "docs")]
    folder: String,
    /// Whether the folders below were looked at as well.
    recursive: bool,
    /// How many files were looked at.
    #[schema(example = 42)]
    files: i64,
    /// Whether those are all; of a folder of more than 100,000 files the first so many are looked at.
    complete: bool,
    /// The metatags, by name in byte order.
    items: Vec<Facet>,
    /// Gives the next page; null on the last one.
    next_cursor: Option<String>,
}

/// Tell which metatags there are
///
/// Names, types, how many files have them, and of texts the most frequent values; for the files of a folder, or for all
/// below it. What may not be read is not counted.
#[utoipa::path(operation_id = "get_facets", tag = "queries",
    params(("slate" = String, Path, description = "The slate's name", example = "Knowledge"), FacetQuery),
    responses((status = 200, description = "A page of metatags", body = FacetsView)))]
#[get("/slates/{slate}/facets")]
pub(super) async fn get_facets(
    ReadOrRetrieve(ctx): ReadOrRetrieve,
    app: web::Data<App>,
    slate: web::Path<String>,
    Query(query): Query<FacetQuery>,
) -> Result<HttpResponse> {
    let FacetQuery { folder, recursive, values, limit, cursor } = query;
    let values = values.unwrap_or(10);
    if !(0..=MAX_VALUES).contains(&values) {
        return Err(Error::invalid_at("/values", format!("must be 0 to {MAX_VALUES}")));
    }
    let folder = folder.unwrap_or_default();
    let after: Option<String> = page::open(cursor.as_deref())?;
    let asked = Asked {
        slate: slate.into_inner(),
        folder: folder.clone(),
        recursive,
        after,
        limit: limit.rows(),
        values,
    };
    let found = app.db.tenant(ctx.tenant, move |tx| facets(tx, &ctx, &asked)).await?;
    let (files, complete) = (found.files, found.complete);
    let Page { items, next_cursor } = Page::cut(found.items, limit, |last| last.name.clone());
    let folder = folder.as_str().to_owned();
    Ok(HttpResponse::Ok().json(FacetsView { folder, recursive, files, complete, items, next_cursor }))
}
