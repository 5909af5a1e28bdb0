//! Errors on the wire: `application/problem+json` (REST contract, "Errors"; RFC 9457).
//!
//! A handler returns an [`Error`]. [`problems`], near the outside of the service, writes the body, since only there the
//! request's id and path are known; it does the same for every refusal of the framework's own. Heads of requests that
//! the HTTP parser itself refuses (400, 408, 431) never become a request and have no body.

use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::StatusCode;
use actix_web::http::header::{self, HeaderName, HeaderValue};
use actix_web::middleware::Next;
use actix_web::{HttpMessage, HttpResponse, ResponseError};
use serde::Serialize;
use tracing_actix_web::RequestId;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::error::{Code, Error, FieldError};

/// The media type of every refusal.
pub const MEDIA_TYPE: &str = "application/problem+json";

/// What `Retry-After` says on 503, in seconds.
const RETRY_AFTER: &str = "1";

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// A refusal or failure (RFC 9457).
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Problem)]
pub struct ProblemView {
    /// Names the kind of problem: `/problems/` and a code to test for.
    #[serde(rename = "type")]
    #[schema(example = "/problems/invalid")]
    kind: String,
    /// The kind in words, always the same for one `type`.
    #[schema(example = "The request has wrong content")]
    title: String,
    /// The HTTP status.
    #[schema(example = 422)]
    status: u16,
    /// What went wrong this time.
    #[schema(example = "/name: must not be empty")]
    detail: String,
    /// The path of the request.
    #[schema(example = "/v1/tenants")]
    instance: String,
    /// Names the request in the service's log; also in the header `X-Request-Id`.
    request_id: Uuid,
    /// Where a body was at fault.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<FieldError>,
}

impl ResponseError for Error {
    fn status_code(&self) -> StatusCode {
        StatusCode::from_u16(self.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// Status and headers; [`problems`] adds the body.
    fn error_response(&self) -> HttpResponse {
        let mut response = HttpResponse::build(self.status_code());
        match self.code.status() {
            401 => response.insert_header((header::WWW_AUTHENTICATE, "Bearer realm=\"slatebase\"")),
            503 => response.insert_header((header::RETRY_AFTER, RETRY_AFTER)),
            _ => &mut response,
        };
        if let Some(seconds) = self.retry_after {
            response.insert_header((header::RETRY_AFTER, seconds));
        }
        response.finish()
    }
}

/// Gives every refusal its body, and every response its `X-Request-Id`.
pub async fn problems(
    req: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, actix_web::Error> {
    let mut res = match super::check_uri(&req) {
        Ok(()) => render(next.call(req).await?),
        Err(error) => render(req.error_response(error)),
    };
    let id = request_id(res.request());
    let headers = res.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if let Ok(value) = HeaderValue::from_str(&id.to_string()) {
        headers.insert(REQUEST_ID, value);
    }
    Ok(res)
}

/// Marks a response whose body is what its protocol says, also where it is a refusal.
#[derive(Debug, Clone, Copy)]
pub struct AsItIs;

/// The response with a problem as its body, where it is a refusal without one.
pub fn render<B: MessageBody + 'static>(res: ServiceResponse<B>) -> ServiceResponse<BoxBody> {
    let status = res.status();
    let done = res.headers().get(header::CONTENT_TYPE).is_some_and(|value| value == MEDIA_TYPE);
    let done = done || res.response().extensions().get::<AsItIs>().is_some();
    if status.as_u16() < 400 || done {
        return res.map_into_boxed_body();
    }
    let view = view(&res);
    let (req, res) = res.into_parts();
    let mut fresh = HttpResponse::build(status);
    for (name, value) in res.headers() {
        let of_the_old_body = [header::CONTENT_TYPE, header::CONTENT_LENGTH, header::CONTENT_ENCODING];
        if !of_the_old_body.contains(name) {
            fresh.append_header((name.clone(), value.clone()));
        }
    }
    fresh.insert_header((header::CONTENT_TYPE, MEDIA_TYPE));
    let body = serde_json::to_vec(&view).unwrap_or_default();
    ServiceResponse::new(req, fresh.body(body))
}

fn view<B>(res: &ServiceResponse<B>) -> ProblemView {
    let req = res.request();
    let of_the_framework;
    let error = match res.response().error().and_then(|error| error.as_error::<Error>()) {
        Some(error) => error,
        None => {
            let code = code_of(res.status());
            of_the_framework = match res.response().error() {
                Some(error) if code == Code::Internal => Error::internal(anyhow::anyhow!("{error:?}")),
                _ => Error::new(code, code.title()),
            };
            &of_the_framework
        }
    };
    log(error);
    ProblemView {
        kind: format!("/problems/{}", error.code.name()),
        title: error.code.title().to_owned(),
        status: error.code.status(),
        detail: error.detail.to_string(),
        instance: req.uri().path().to_owned(),
        request_id: request_id(req),
        errors: error.errors.clone(),
    }
}

fn log(error: &Error) {
    match (error.code.status(), &error.source) {
        (500.., Some(source)) => tracing::error!(code = error.code.name(), "{source:#}"),
        (500.., None) => tracing::warn!(code = error.code.name(), "{}", error.detail),
        (_, Some(source)) => tracing::debug!(code = error.code.name(), "{source:#}"),
        (_, None) => tracing::debug!(code = error.code.name(), "{}", error.detail),
    }
}

/// The first code of the table that has the status.
fn code_of(status: StatusCode) -> Code {
    if status == StatusCode::BAD_REQUEST {
        return Code::BadRequest;
    }
    let other = if status.is_client_error() { Code::BadRequest } else { Code::Internal };
    Code::ALL.iter().copied().find(|code| code.status() == status.as_u16()).unwrap_or(other)
}

/// Names the request in logs and problems.
pub fn request_id(req: &impl HttpMessage) -> Uuid {
    req.extensions().get::<RequestId>().map_or_else(Uuid::nil, |id| **id)
}
