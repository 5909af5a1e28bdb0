//! Who calls (REST contract, "Who calls").
//!
//! [`authenticate`] wraps all of `/v1`: it finds the caller once, before routing, and leaves it with the request. A
//! handler names the right that it needs by the type of its **first** argument, so that 401 and 403 come before any
//! word about the body: [`Read`], [`Write`], [`Retrieve`], [`ReadOrRetrieve`], [`Admin`] or [`Operator`].
//!
//! Every token that does not open the door gets the same answer, whether the tenant, the key or the secret is wrong, the
//! key has been revoked, or has expired. Where the server takes fixed tokens, a token of another form is looked up among those
//! by its hash. The operator token reads no slate: on a tenant's routes it is 403, as a
//! tenant's key is on the operator's.

use std::future::{Ready, ready};

use actix_web::body::BoxBody;
use actix_web::dev::{Payload, ServiceRequest, ServiceResponse};
use actix_web::http::header::{AUTHORIZATION, HeaderMap};
use actix_web::middleware::Next;
use actix_web::{FromRequest, HttpMessage, HttpRequest, web};
use chrono::{DateTime, SubsecRound, Utc};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::problem::request_id;
use crate::app::App;
use crate::ctx::{Ctx, Scope, TenantId};
use crate::db::patient;
use crate::error::{Code, Error, Result};
use crate::tenants::ops as tenants;
use crate::tenants::secret::Token;

/// Who calls, once that is known.
#[derive(Debug, Clone)]
pub enum Principal {
    /// A key of a tenant.
    Key(Ctx),
    /// The holder of the operator token.
    Operator(Operator),
}

impl Principal {
    /// The tenant and the key that idempotency keys belong to.
    pub fn identity(&self) -> (TenantId, i64) {
        match self {
            Principal::Key(ctx) => (ctx.tenant, ctx.key_id),
            Principal::Operator(_) => (TenantId::OPERATOR, 0),
        }
    }
}

/// Refuses a caller that is not known, and leaves the [`Principal`] with the request of one that is.
pub async fn authenticate(
    req: ServiceRequest,
    next: Next<BoxBody>,
) -> Result<ServiceResponse<BoxBody>, actix_web::Error> {
    patient(admit(req, next)).await
}

async fn admit(
    req: ServiceRequest,
    next: Next<BoxBody>,
) -> Result<ServiceResponse<BoxBody>, actix_web::Error> {
    match principal(&req).await {
        Ok(principal) => {
            if let Principal::Key(ctx) = &principal {
                let span = tracing::Span::current();
                span.record("tenant", ctx.tenant.0).record("key", ctx.key_id);
            }
            req.extensions_mut().insert(principal);
            next.call(req).await
        }
        Err(error) => Ok(req.error_response(error)),
    }
}

async fn principal(req: &ServiceRequest) -> Result<Principal> {
    let now = Utc::now().trunc_subsecs(6);
    let request_id = request_id(req);
    let app = req.app_data::<web::Data<App>>().ok_or_else(no_app)?;
    let token = bearer(req.headers()).ok_or_else(refused)?;
    // Hashes are compared, so neither the time that it takes nor its outcome tells the length of the token.
    let sha256: [u8; 32] = Sha256::digest(token).into();
    if app.operator_token.is_some_and(|known| known.ct_eq(&sha256).into()) {
        return Ok(Principal::Operator(Operator { now }));
    }
    let (tenant, key_id, same, key) = match Token::parse(token) {
        Some(token) => {
            let (tenant, key_id) = (token.tenant, token.key_id);
            let find = move |connection: &mut _| tenants::find_key(connection, tenant, key_id);
            let key = app.db.anonymous(find).await?;
            // A key that does not exist is compared as well.
            let known = key.as_ref().map_or(&[0; 32][..], |key| &key.secret_sha256);
            (tenant, key_id, known.ct_eq(&token.secret_sha256()).into(), key)
        }
        None if app.fixed_tokens => {
            let found = app.db.anonymous(move |connection| tenants::find_alias(connection, &sha256)).await?;
            let (tenant, key_id, key) = found.ok_or_else(refused)?;
            (tenant, key_id, true, Some(key))
        }
        None => return Err(refused()),
    };
    let live =
        |key: &tenants::KeySecret| key.revoked_at.is_none() && key.expires_at.is_none_or(|end| end > now);
    match key {
        Some(key) if same && live(&key) => Ok(Principal::Key(Ctx {
            tenant,
            key_id,
            scopes: key.scopes.into(),
            slates: key.slates.map(Into::into),
            request_id,
            now,
        })),
        _ => Err(refused()),
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(AUTHORIZATION);
    let value = values.next()?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    (values.next().is_none() && scheme.eq_ignore_ascii_case("bearer")).then(|| token.trim_ascii())
}

fn refused() -> Error {
    Error::new(
        Code::Unauthorized,
        "send Authorization: Bearer with a key that is neither revoked nor expired",
    )
}

pub(super) fn no_app() -> Error {
    Error::internal(anyhow::anyhow!("the application is not part of the server"))
}

fn ctx(req: &HttpRequest) -> Result<Ctx> {
    match req.extensions().get::<Principal>() {
        Some(Principal::Key(ctx)) => Ok(ctx.clone()),
        Some(Principal::Operator(_)) => {
            Err(Error::new(Code::Forbidden, "the operator token is for tenants and their keys alone"))
        }
        None => Err(refused()),
    }
}

macro_rules! scoped {
    ($($(#[$doc:meta])* $name:ident: $first:ident $(or $second:ident)?;)*) => {
        $(
            $(#[$doc])*
            #[derive(Debug, Clone)]
            pub struct $name(pub Ctx);

            impl FromRequest for $name {
                type Error = Error;
                type Future = Ready<Result<Self>>;

                fn from_request(req: &HttpRequest, _: &mut Payload) -> Self::Future {
                    ready(ctx(req).and_then(|ctx| {
                        let held = ctx.require(Scope::$first);
                        $(let held = held.or_else(|error| ctx.require(Scope::$second).map_err(|_| error));)?
                        held.map(|()| $name(ctx))
                    }))
                }
            }
        )*
    };
}

scoped! {
    /// A caller whose key has the scope `read`.
    Read: Read;
    /// A caller whose key has the scope `write`.
    Write: Write;
    /// A caller whose key has the scope `retrieve`.
    Retrieve: Retrieve;
    /// A caller whose key has the scope `read`, or `retrieve`, which implies the reads that it is for.
    ReadOrRetrieve: Read or Retrieve;
    /// A caller whose key has the scope `admin`.
    Admin: Admin;
}

/// The holder of the operator token.
#[derive(Debug, Clone, Copy)]
pub struct Operator {
    /// When the request came, whole microseconds UTC.
    pub now: DateTime<Utc>,
}

impl FromRequest for Operator {
    type Error = Error;
    type Future = Ready<Result<Self>>;

    fn from_request(req: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(match req.extensions().get::<Principal>() {
            Some(Principal::Operator(operator)) => Ok(*operator),
            Some(Principal::Key(_)) => Err(Error::new(Code::Forbidden, "this needs the operator token")),
            None => Err(refused()),
        })
    }
}
