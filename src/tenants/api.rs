//! Tenants, keys and settings over HTTP.

use actix_web::http::header::{CACHE_CONTROL, ETAG};
use actix_web::middleware::from_fn;
use actix_web::{HttpResponse, delete, get, post, put, web};
use chrono::{DateTime, SubsecRound, Utc};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_actix_web::service_config::ServiceConfig;

use super::ops;
use super::secret::FixedToken;
use super::settings::{Settings, Spending};
use super::tenant::{Key, NewKey, Tenant, TenantName};
use crate::app::App;
use crate::ctx::Scope;
use crate::error::{Code, Error, Result};
use crate::http::auth::{Admin, Operator};
use crate::http::body::DEFAULT_LIMIT;
use crate::http::conditional::{self, ConditionHeaders, Conditions};
use crate::http::idempotency::{IdempotencyKey, once};
use crate::http::json::Body;
use crate::http::page::{self, Page, PageQuery};
use crate::http::query::Query;

/// Adds the routes.
pub fn configure(config: &mut ServiceConfig) {
    config
        .service(create_tenant)
        .service(list_tenants)
        .service(get_tenant)
        .service(delete_tenant)
        .service(create_key)
        .service(list_keys)
        .service(revoke_key)
        .service(put_key_alias)
        .service(delete_key_alias)
        .service(get_settings)
        .service(put_settings);
}

/// A tenant to be made.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NewTenant {
    /// 1 to 63 of `a-z0-9-`.
    #[schema(example = "acme", min_length = 1, max_length = 63, pattern = "^[a-z0-9-]{1,63}$")]
    name: String,
}

/// A tenant.
#[derive(Serialize, ToSchema)]
#[schema(as = Tenant)]
struct TenantView {
    /// Its name, by which the operator's routes know it.
    #[schema(example = "acme")]
    name: String,
    /// Its number, which its keys' tokens carry.
    #[schema(example = 7)]
    number: i64,
    /// When it was made.
    created_at: DateTime<Utc>,
}

impl From<Tenant> for TenantView {
    fn from(tenant: Tenant) -> TenantView {
        TenantView { name: tenant.name, number: tenant.id.0, created_at: tenant.created_at }
    }
}

/// A key to be made.
#[derive(Deserialize, ToSchema)]
#[schema(as = NewKey)]
#[serde(deny_unknown_fields)]
struct NewKeyBody {
    /// What people call it: 1 to 200 characters.
    #[schema(example = "support agent", min_length = 1, max_length = 200)]
    label: String,
    /// What it may do; at least one.
    #[schema(example = json!(["read", "retrieve"]), min_items = 1)]
    scopes: Vec<Scope>,
    /// The only slates that it may touch; left out or null, all of the tenant's.
    #[schema(example = json!(["Knowledge"]), min_items = 1)]
    #[serde(default)]
    slates: Option<Vec<String>>,
    /// When it ends to open anything; left out or null, never.
    #[serde(default)]
    #[schema(example = "2099-12-31T00:00:00Z")]
    expires_at: Option<DateTime<Utc>>,
}

/// A key, without its token.
#[derive(Serialize, ToSchema)]
#[schema(as = Key)]
struct KeyView {
    /// Its number.
    #[schema(example = 12)]
    key_id: i64,
    /// What people call it.
    #[schema(example = "support agent")]
    label: String,
    /// What it may do.
    #[schema(example = json!(["read", "retrieve"]))]
    scopes: Vec<Scope>,
    /// The only slates that it may touch; null is all of the tenant's.
    #[schema(example = json!(["Knowledge"]))]
    slates: Option<Vec<String>>,
    /// When it was made.
    created_at: DateTime<Utc>,
    /// When it ends to open anything; null is never.
    expires_at: Option<DateTime<Utc>>,
    /// When it was revoked; null while it is not.
    revoked_at: Option<DateTime<Utc>>,
}

impl From<Key> for KeyView {
    fn from(key: Key) -> KeyView {
        KeyView {
            key_id: key.id,
            label: key.label,
            scopes: key.scopes,
            slates: key.slates,
            created_at: key.created_at,
            expires_at: key.expires_at,
            revoked_at: key.revoked_at,
        }
    }
}

/// A key that was just made, with its token.
#[derive(Serialize, ToSchema)]
#[schema(as = CreatedKey)]
struct CreatedKeyView {
    #[serde(flatten)]
    key: KeyView,
    /// The key itself. It is shown this once.
    #[schema(example = "slb_7_12_5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8")]
    token: String,
}

/// The settings of a tenant; a PUT gives all of them.
#[derive(Serialize, Deserialize, ToSchema)]
#[schema(as = Settings)]
#[serde(deny_unknown_fields)]
struct SettingsBody {
    /// Where plain paths are looked up that name no slate.
    #[serde(default)]
    #[schema(example = "Knowledge")]
    default_slate: Option<String>,
    /// Globs over whole paths that no front door reads; left out or null, those that keep common secrets out.
    #[serde(default)]
    #[schema(example = json!(["**/.env", "**/*.pem"]))]
    deny_globs: Option<Vec<String>>,
    /// Days that a finished session is kept: 1 to 36500; left out or null, 90.
    #[serde(default)]
    #[schema(example = 90, minimum = 1, maximum = 36500)]
    session_retention_days: Option<i32>,
    /// Sessions that the service may run at once; left out or null, any number.
    #[serde(default)]
    #[schema(example = 20, minimum = 0)]
    max_concurrent_runs: Option<i32>,
    /// Calls of a model that the service may make in a day of UTC; left out or null, any number.
    #[serde(default)]
    #[schema(example = 5000, minimum = 0)]
    max_rounds_per_day: Option<i64>,
    /// Tokens of a day of UTC, prompts and completions, past which the service makes no call; left out or null, any number.
    #[serde(default)]
    #[schema(example = 10_000_000, minimum = 0)]
    max_tokens_per_day: Option<i64>,
}

impl From<Settings> for SettingsBody {
    fn from(settings: Settings) -> SettingsBody {
        SettingsBody {
            default_slate: settings.default_slate,
            deny_globs: Some(settings.deny_globs),
            session_retention_days: Some(settings.session_retention_days),
            max_concurrent_runs: settings.spending.max_concurrent_runs,
            max_rounds_per_day: settings.spending.max_rounds_per_day,
            max_tokens_per_day: settings.spending.max_tokens_per_day,
        }
    }
}

/// Make a tenant
///
/// It is empty, and has no key yet. 409 where its name is taken.
#[utoipa::path(operation_id = "create_tenant", tag = "administration", params(IdempotencyKey),
    request_body = NewTenant, responses(
    (status = 201, description = "Made", body = TenantView),
    (status = 409, description = "A tenant of this name exists, or the `Idempotency-Key` is in use")))]
#[post("/tenants", wrap = "from_fn(once::<Operator, DEFAULT_LIMIT>)")]
async fn create_tenant(
    operator: Operator,
    app: web::Data<App>,
    Body(new): Body<NewTenant>,
) -> Result<HttpResponse> {
    let name = TenantName::parse(&new.name)?;
    let tenant = app.db.operator(move |tx| ops::create_tenant(tx, &name, operator.now)).await?;
    Ok(HttpResponse::Created().json(TenantView::from(tenant)))
}

/// List the tenants
///
/// In the order of their names.
#[utoipa::path(operation_id = "list_tenants", tag = "administration", params(PageQuery), responses(
    (status = 200, description = "A page of them", body = Page<TenantView>)))]
#[get("/tenants")]
async fn list_tenants(
    _: Operator,
    app: web::Data<App>,
    Query(query): Query<PageQuery>,
) -> Result<HttpResponse> {
    let after: Option<String> = page::open(query.cursor.as_deref())?;
    let rows = app.db.operator(move |tx| ops::list_tenants(tx, after.as_deref(), query.limit.rows())).await?;
    let page = Page::cut(rows, query.limit, |last| last.name.clone());
    Ok(HttpResponse::Ok().json(page.map(TenantView::from)))
}

/// Get a tenant
///
/// Its name, its number, and when it was made.
#[utoipa::path(operation_id = "get_tenant", tag = "administration", params(("tenant" = String, Path, description = "Its name", example = "acme")), responses(
    (status = 200, description = "The tenant", body = TenantView)))]
#[get("/tenants/{tenant}")]
async fn get_tenant(_: Operator, app: web::Data<App>, name: web::Path<String>) -> Result<HttpResponse> {
    let tenant = app.db.operator(move |tx| ops::get_tenant(tx, &name)).await?;
    Ok(HttpResponse::Ok().json(TenantView::from(tenant)))
}

/// Erase a tenant
///
/// With all that it has: keys, slates, files, sessions and provenance. Nothing of it can be brought back.
#[utoipa::path(operation_id = "delete_tenant", tag = "administration", params(("tenant" = String, Path, description = "Its name", example = "acme")), responses(
    (status = 204, description = "Erased")))]
#[delete("/tenants/{tenant}")]
async fn delete_tenant(_: Operator, app: web::Data<App>, name: web::Path<String>) -> Result<HttpResponse> {
    app.db.operator(move |tx| ops::delete_tenant(tx, &name)).await?;
    Ok(HttpResponse::NoContent().finish())
}

/// Make a key of a tenant
///
/// Its token is in this answer and nowhere else, ever.
#[utoipa::path(operation_id = "create_key", tag = "administration", params(("tenant" = String, Path, description = "Its name", example = "acme"), IdempotencyKey),
    request_body = NewKeyBody, responses(
    (status = 201, description = "Made", body = CreatedKeyView)))]
#[post("/tenants/{tenant}/keys", wrap = "from_fn(once::<Operator, DEFAULT_LIMIT>)")]
async fn create_key(
    operator: Operator,
    app: web::Data<App>,
    tenant: web::Path<String>,
    Body(new): Body<NewKeyBody>,
) -> Result<HttpResponse> {
    let expires_at = new.expires_at.map(|end| end.trunc_subsecs(6));
    let new = NewKey::parse(new.label, &new.scopes, new.slates, expires_at, operator.now)?;
    let secret = rand::random();
    let (key, token) =
        app.db.operator(move |tx| ops::create_key(tx, &tenant, &new, secret, operator.now)).await?;
    let view = CreatedKeyView { key: key.into(), token: token.expose() };
    Ok(HttpResponse::Created().insert_header((CACHE_CONTROL, "no-store")).json(view))
}

/// List a tenant's keys
///
/// In the order of their numbers, revoked ones too; never a secret.
#[utoipa::path(operation_id = "list_keys", tag = "administration", params(("tenant" = String, Path, description = "Its name", example = "acme"), PageQuery), responses(
    (status = 200, description = "A page of them", body = Page<KeyView>)))]
#[get("/tenants/{tenant}/keys")]
async fn list_keys(
    _: Operator,
    app: web::Data<App>,
    tenant: web::Path<String>,
    Query(query): Query<PageQuery>,
) -> Result<HttpResponse> {
    let after: Option<i64> = page::open(query.cursor.as_deref())?;
    let rows = app.db.operator(move |tx| ops::list_keys(tx, &tenant, after, query.limit.rows())).await?;
    let page = Page::cut(rows, query.limit, |last| last.id);
    Ok(HttpResponse::Ok().json(page.map(KeyView::from)))
}

/// Revoke a key
///
/// It opens nothing from this moment on.
#[utoipa::path(operation_id = "revoke_key", tag = "administration", params(("tenant" = String, Path, description = "Its name", example = "acme"), ("key_id" = i64, Path, description = "Its number", example = 12)), responses(
    (status = 204, description = "Revoked")))]
#[delete("/tenants/{tenant}/keys/{key_id}")]
async fn revoke_key(
    operator: Operator,
    app: web::Data<App>,
    at: web::Path<(String, String)>,
) -> Result<HttpResponse> {
    let (tenant, key_id) = at.into_inner();
    let key_id = key_id.parse().map_err(|_| Error::not_found())?;
    app.db.operator(move |tx| ops::revoke_key(tx, &tenant, key_id, operator.now)).await?;
    Ok(HttpResponse::NoContent().finish())
}

#[derive(Deserialize, ToSchema)]
#[schema(as = NewKeyAlias)]
#[serde(deny_unknown_fields)]
struct NewAliasBody {
    /// The token: visible characters of ASCII, no spaces, and not as the keys' own tokens begin.
    #[schema(example = "fabric-internal", min_length = 8, max_length = 512, pattern = "^[!-~]{8,512}$")]
    token: String,
}

/// Give a key a fixed token
///
/// It opens the key beside the key's own token, and takes the place of the one that the key has: for callers that can send no
/// token but their own. Only its hash is stored. The server has to run with `SLATEBASE_FIXED_TOKENS=on`.
#[utoipa::path(operation_id = "put_key_alias", tag = "administration", params(("tenant" = String, Path, description = "Its name", example = "acme"), ("key_id" = i64, Path, description = "The key's number", example = 12)),
    request_body = NewAliasBody, responses(
    (status = 204, description = "The token opens the key"),
    (status = 409, description = "The token is another key's, or the server takes no fixed tokens")))]
#[put("/tenants/{tenant}/keys/{key_id}/alias")]
async fn put_key_alias(
    operator: Operator,
    app: web::Data<App>,
    at: web::Path<(String, String)>,
    Body(new): Body<NewAliasBody>,
) -> Result<HttpResponse> {
    let token = FixedToken::parse(&new.token).map_err(|detail| Error::invalid_at("/token", detail))?;
    if !app.fixed_tokens {
        return Err(Error::new(Code::FixedTokensOff, "start the server with SLATEBASE_FIXED_TOKENS=on"));
    }
    let (tenant, key_id) = at.into_inner();
    let key_id = key_id.parse().map_err(|_| Error::not_found())?;
    app.db.operator(move |tx| ops::put_alias(tx, &tenant, key_id, &token, operator.now)).await?;
    Ok(HttpResponse::NoContent().finish())
}

/// Take a key's fixed token away
///
/// The key's own token opens it as before.
#[utoipa::path(operation_id = "delete_key_alias", tag = "administration", params(("tenant" = String, Path, description = "Its name", example = "acme"), ("key_id" = i64, Path, description = "The key's number", example = 12)), responses(
    (status = 204, description = "It opens nothing any more")))]
#[delete("/tenants/{tenant}/keys/{key_id}/alias")]
async fn delete_key_alias(
    _: Operator,
    app: web::Data<App>,
    at: web::Path<(String, String)>,
) -> Result<HttpResponse> {
    let (tenant, key_id) = at.into_inner();
    let key_id = key_id.parse().map_err(|_| Error::not_found())?;
    app.db.operator(move |tx| ops::delete_alias(tx, &tenant, key_id)).await?;
    Ok(HttpResponse::NoContent().finish())
}

/// Get the settings
///
/// What was never set has its default.
#[utoipa::path(operation_id = "get_settings", tag = "administration", params(ConditionHeaders), responses(
    (status = 200, description = "The tenant's settings", body = SettingsBody,
     headers(("ETag" = String, description = "Changes with the settings")))))]
#[get("/settings")]
async fn get_settings(
    Admin(ctx): Admin,
    app: web::Data<App>,
    Conditions(conditions): Conditions,
) -> Result<HttpResponse> {
    let (settings, etag) = app.db.tenant(ctx.tenant, ops::get_settings).await?;
    conditional::json(&conditions, &etag, &SettingsBody::from(settings))
}

/// Replace the settings
///
/// What is left out goes back to its default.
#[utoipa::path(operation_id = "put_settings", tag = "administration", params(ConditionHeaders), request_body = SettingsBody, responses(
    (status = 200, description = "The settings as they are now", body = SettingsBody,
     headers(("ETag" = String, description = "Changes with the settings")))))]
#[put("/settings")]
async fn put_settings(
    Admin(ctx): Admin,
    app: web::Data<App>,
    Conditions(conditions): Conditions,
    Body(new): Body<SettingsBody>,
) -> Result<HttpResponse> {
    let spending = Spending {
        max_concurrent_runs: new.max_concurrent_runs,
        max_rounds_per_day: new.max_rounds_per_day,
        max_tokens_per_day: new.max_tokens_per_day,
    };
    let settings = Settings::parse(new.default_slate, new.deny_globs, new.session_retention_days, spending)?;
    let view = SettingsBody::from(settings.clone());
    let etag = app.db.tenant(ctx.tenant, move |tx| ops::put_settings(tx, &settings, &conditions)).await?;
    Ok(HttpResponse::Ok().insert_header((ETAG, etag)).json(view))
}
