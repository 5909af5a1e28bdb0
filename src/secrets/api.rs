//! Secrets over HTTP: they come in, and never go out.

use actix_web::{HttpResponse, delete, get, put, web};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_actix_web::service_config::ServiceConfig;

use super::name::{Listed, SecretName, SecretValue};
use super::ops;
use crate::app::App;
use crate::error::{Error, Result};
use crate::http::auth::Admin;
use crate::http::json::Body;
use crate::http::page::{self, Page, PageQuery};
use crate::http::query::Query;

/// Registers the operations.
pub fn configure(config: &mut ServiceConfig) {
    config.service(list_secrets).service(put_secret).service(delete_secret);
}

/// A secret that is to be stored.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NewSecret {
    /// The secret itself: a token, a password, or what else a source asks for; 1 to 65,536 bytes.
    #[schema(example = "not-a-real-token", min_length = 1, max_length = 65536, write_only)]
    value: String,
}

/// What is told of a secret: never what it says.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Secret)]
struct SecretView {
    /// What sources, corpora and capabilities name it by.
    #[schema(example = "weather-token")]
    name: String,
    /// When it was first stored.
    created_at: DateTime<Utc>,
    /// When it was last replaced.
    updated_at: DateTime<Utc>,
}

impl From<Listed> for SecretView {
    fn from(Listed { name, created_at, updated_at }: Listed) -> SecretView {
        SecretView { name, created_at, updated_at }
    }
}

/// List the secrets
///
/// Their names and times, by name.
#[utoipa::path(operation_id = "list_secrets", tag = "administration", params(PageQuery),
    responses((status = 200, description = "A page of secrets", body = Page<SecretView>)))]
#[get("/secrets")]
async fn list_secrets(
    Admin(ctx): Admin,
    app: web::Data<App>,
    Query(page): Query<PageQuery>,
) -> Result<HttpResponse> {
    let after: Option<String> = page::open(page.cursor.as_deref())?;
    let limit = page.limit;
    let rows = app.db.tenant(ctx.tenant, move |tx| ops::list(tx, after.as_deref(), limit.rows())).await?;
    let page = Page::cut(rows, limit, |last| last.name.clone());
    Ok(HttpResponse::Ok().json(page.map(SecretView::from)))
}

/// Store a secret, or replace it
///
/// It is encrypted at rest, used for requests to other hosts alone, and never shown again. 409 where the service was given
/// no key to encrypt it with.
#[utoipa::path(operation_id = "put_secret", tag = "administration",
    params(("name" = String, Path, description = "The secret's name", example = "weather-token")),
    request_body = NewSecret,
    responses((status = 200, description = "It was there, and is replaced", body = SecretView),
              (status = 201, description = "It is stored", body = SecretView)))]
#[put("/secrets/{name}")]
async fn put_secret(
    Admin(ctx): Admin,
    app: web::Data<App>,
    name: web::Path<String>,
    Body(new): Body<NewSecret>,
) -> Result<HttpResponse> {
    let name =
        SecretName::parse(&name).map_err(|error| Error::invalid_at("", format!("the name {error}")))?;
    let value = SecretValue::parse(new.value)?;
    let keys = app.secrets.clone();
    let (listed, made) =
        app.db.tenant(ctx.tenant, move |tx| ops::put(tx, &ctx, &keys, &name, &value)).await?;
    let mut response = if made { HttpResponse::Created() } else { HttpResponse::Ok() };
    Ok(response.json(SecretView::from(listed)))
}

/// Delete a secret
///
/// What names it fails from then on.
#[utoipa::path(operation_id = "delete_secret", tag = "administration",
    params(("name" = String, Path, description = "The secret's name", example = "weather-token")),
    responses((status = 204, description = "Deleted")))]
#[delete("/secrets/{name}")]
async fn delete_secret(
    Admin(ctx): Admin,
    app: web::Data<App>,
    name: web::Path<String>,
) -> Result<HttpResponse> {
    app.db.tenant(ctx.tenant, move |tx| ops::delete(tx, &name)).await?;
    Ok(HttpResponse::NoContent().finish())
}
