//! `If-Match`, `If-None-Match` and `ETag` at the edge; what they mean is in [`precondition`](crate::precondition).

use std::future::{Ready, ready};

use actix_web::dev::Payload;
use actix_web::http::header::{ETAG, HeaderMap, HeaderName, IF_MATCH, IF_NONE_MATCH};
use actix_web::{FromRequest, HttpRequest, HttpResponse};
use serde::Serialize;
use utoipa::IntoParams;

use crate::error::{Code, Error, Result};
use crate::precondition::{Preconditions, Tags};

/// What the request demands of the thing that it is about.
pub struct Conditions(pub Preconditions);

impl FromRequest for Conditions {
    type Error = Error;
    type Future = Ready<Result<Self>>;

    fn from_request(req: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(read(req.headers()).map(Conditions))
    }
}

fn read(headers: &HeaderMap) -> Result<Preconditions> {
    let tags = |name: HeaderName| {
        let values: Result<Vec<&str>, _> = headers.get_all(&name).map(|value| value.to_str()).collect();
        let values =
            values.map_err(|_| Error::new(Code::BadRequest, format!("{name} holds no entity tags")))?;
        Tags::parse(values.into_iter())
    };
    Ok(Preconditions { if_match: tags(IF_MATCH)?, if_none_match: tags(IF_NONE_MATCH)? })
}

/// Answers a read of something that has a tag: 200 with its JSON, or 304.
///
/// # Errors
/// 412 from `If-Match`.
pub fn json(conditions: &Preconditions, etag: &str, view: &impl Serialize) -> Result<HttpResponse> {
    if conditions.not_modified(etag)? {
        return Ok(HttpResponse::NotModified().insert_header((ETAG, etag)).finish());
    }
    Ok(HttpResponse::Ok().insert_header((ETAG, etag)).json(view))
}

/// The headers, for the OpenAPI document.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub struct ConditionHeaders {
    /// Entity tags, of which one must be the current one, or `*` for any; else the answer is 412.
    #[param(rename = "If-Match", example = "*", pattern = r#"^(\*|(W/)?"[^"]*"( *, *(W/)?"[^"]*")*)?$"#)]
    pub if_match: Option<String>,
    /// Entity tags, of which none may be the current one, or `*` for none at all; else a read is 304 and a write 412.
    #[param(
        rename = "If-None-Match",
        example = "\"f5.3.1.2\"",
        pattern = r#"^(\*|(W/)?"[^"]*"( *, *(W/)?"[^"]*")*)?$"#
    )]
    pub if_none_match: Option<String>,
}
