//! `/v1/slates/{slate}/metatags/{path}`: the metatags of one file, as a flat JSON object.

use actix_web::http::header::ETAG;
use actix_web::{HttpResponse, get, patch, put, web};
use serde_json::{Map, Value};
use utoipa_actix_web::service_config::ServiceConfig;

use crate::app::App;
use crate::error::{Error, FieldError, Result, pointer};
use crate::files::ops::tagging;
use crate::http::auth::{ReadOrRetrieve, Write};
use crate::http::conditional::{self, ConditionHeaders, Conditions};
use crate::http::json::Body;
use crate::metatags::Tags;
use crate::path::FilePath;

/// Registers the operations.
pub(super) fn configure(config: &mut ServiceConfig) {
    config.service(get_metatags).service(put_metatags).service(patch_metatags);
}

/// Get a file's metatags
///
/// A flat object. A value is a text, an array of texts, a number, a boolean, or an object.
#[utoipa::path(operation_id = "get_metatags", tag = "slates",
    params(("slate" = String, Path, description = "The slate's name", example = "Knowledge"),
           ("path" = String, Path, description = "The file's path", example = "docs/core.md"), ConditionHeaders),
    responses((status = 200, description = "Name → value", body = Object,
               example = json!({"category": "security", "topics": ["auth"], "priority": 3}))))]
#[get("/slates/{slate}/metatags/{path:.*}")]
async fn get_metatags(
    ReadOrRetrieve(ctx): ReadOrRetrieve,
    app: web::Data<App>,
    at: web::Path<(String, FilePath)>,
    Conditions(conditions): Conditions,
) -> Result<HttpResponse> {
    let (slate, path) = at.into_inner();
    let (head, tags) = app.db.tenant(ctx.tenant, move |tx| tagging::get(tx, &ctx, &slate, &path)).await?;
    conditional::json(&conditions, &head.etag(), &tags)
}

/// Set all of a file's metatags
///
/// The type of each follows from its JSON value: string, string[] (`[]` included), number, boolean, and object for
/// everything structured. A null is refused.
#[utoipa::path(operation_id = "put_metatags", tag = "slates",
    params(("slate" = String, Path, description = "The slate's name", example = "Knowledge"),
           ("path" = String, Path, description = "The file's path", example = "docs/core.md"), ConditionHeaders),
    request_body(content = Object, example = json!({"category": "security", "topics": ["auth"], "priority": 3})),
    responses((status = 200, description = "The metatags as they are now", body = Object,
               example = json!({"category": "security", "topics": ["auth"], "priority": 3}))))]
#[put("/slates/{slate}/metatags/{path:.*}")]
async fn put_metatags(
    Write(ctx): Write,
    app: web::Data<App>,
    at: web::Path<(String, FilePath)>,
    Conditions(conditions): Conditions,
    Body(given): Body<Map<String, Value>>,
) -> Result<HttpResponse> {
    let (slate, path) = at.into_inner();
    let (tags, nulls) = Tags::parse(given, "").map_err(Error::invalid)?;
    if !nulls.is_empty() {
        let wrong =
            |name| FieldError::new(pointer("", name), "a metatag has a value; PATCH with null removes one");
        return Err(Error::invalid(nulls.iter().map(wrong).collect()));
    }
    let (head, tags) = app
        .db
        .tenant(ctx.tenant, move |tx| {
            tagging::set(tx, &ctx, &slate, &path, |head, _| {
                conditions.check_write(Some(&head.etag()))?;
                Ok(tags.clone())
            })
        })
        .await?;
    Ok(HttpResponse::Ok().insert_header((ETAG, head.etag())).json(tags))
}

/// Change some of a file's metatags
///
/// A merge patch (RFC 7396): null removes, objects merge member by member, everything else replaces.
#[utoipa::path(operation_id = "patch_metatags", tag = "slates",
    params(("slate" = String, Path, description = "The slate's name", example = "Knowledge"),
           ("path" = String, Path, description = "The file's path", example = "docs/core.md"), ConditionHeaders),
    request_body(content = Object, example = json!({"priority": 4, "draft": null})),
    responses((status = 200, description = "The metatags as they are now", body = Object,
               example = json!({"category": "security", "topics": ["auth"], "priority": 4}))))]
#[patch("/slates/{slate}/metatags/{path:.*}")]
async fn patch_metatags(
    Write(ctx): Write,
    app: web::Data<App>,
    at: web::Path<(String, FilePath)>,
    Conditions(conditions): Conditions,
    Body(patch): Body<Map<String, Value>>,
) -> Result<HttpResponse> {
    let (slate, path) = at.into_inner();
    let (head, tags) = app
        .db
        .tenant(ctx.tenant, move |tx| {
            tagging::set(tx, &ctx, &slate, &path, |head, before| {
                conditions.check_write(Some(&head.etag()))?;
                before.merge(patch.clone(), "").map_err(Error::invalid)
            })
        })
        .await?;
    Ok(HttpResponse::Ok().insert_header((ETAG, head.etag())).json(tags))
}
