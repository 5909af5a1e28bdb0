//! The log span of a request. What it tells of a caller are numbers; never a token, a query string or a header.

use actix_web::HttpMessage;
use actix_web::body::MessageBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use tracing::Span;
use tracing_actix_web::{RequestId, RootSpanBuilder};

/// Makes the spans.
pub struct Spans;

impl RootSpanBuilder for Spans {
    fn on_request_start(req: &ServiceRequest) -> Span {
        let request_id = req.extensions().get::<RequestId>().copied();
        tracing::info_span!(
            "request",
            request_id = request_id.map(tracing::field::display),
            method = %req.method(),
            path = req.uri().path(),
            tenant = tracing::field::Empty,
            key = tracing::field::Empty,
        )
    }

    fn on_request_end<B: MessageBody>(_: Span, _: &Result<ServiceResponse<B>, actix_web::Error>) {}
}
