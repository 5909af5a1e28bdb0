//! Counts and latencies, for Prometheus.
//!
//! Labels have few values: the method, the *pattern* of the route (never the path that was asked for) and the status.

use std::sync::OnceLock;
use std::time::Instant;

use actix_web::body::BoxBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::Method;
use actix_web::middleware::Next;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

const REQUESTS: &str = "slatebase_http_requests_total";
const LATENCY: &str = "slatebase_http_request_seconds";
const BUCKETS: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];

/// The process's recorder, installed when it is first asked for.
///
/// # Errors
/// When the process has another recorder.
pub fn recorder() -> anyhow::Result<&'static PrometheusHandle> {
    static HANDLE: OnceLock<Result<PrometheusHandle, String>> = OnceLock::new();
    let install = || -> Result<PrometheusHandle, metrics_exporter_prometheus::BuildError> {
        let handle = PrometheusBuilder::new()
            .set_buckets_for_metric(Matcher::Full(LATENCY.into()), &BUCKETS)?
            .install_recorder()?;
        metrics::describe_counter!(REQUESTS, "Requests, by method, route and status");
        metrics::describe_histogram!(LATENCY, metrics::Unit::Seconds, "Time until the answer begins");
        Ok(handle)
    };
    HANDLE
        .get_or_init(|| install().map_err(|error| error.to_string()))
        .as_ref()
        .map_err(|error| anyhow::anyhow!("cannot record metrics: {error}"))
}

/// Counts the request and logs one line about it.
pub async fn measure(
    req: ServiceRequest,
    next: Next<BoxBody>,
) -> Result<ServiceResponse<BoxBody>, actix_web::Error> {
    let begun = Instant::now();
    let method = method_label(req.method());
    let res = next.call(req).await?;
    let elapsed = begun.elapsed();
    let route = res.request().match_pattern().unwrap_or_else(|| "none".into());
    let status = res.status().as_u16();
    metrics::counter!(REQUESTS, "method" => method, "route" => route.clone(), "status" => status.to_string())
        .increment(1);
    metrics::histogram!(LATENCY, "method" => method, "route" => route).record(elapsed.as_secs_f64());
    tracing::info!(status, milliseconds = elapsed.as_millis() as u64, "answered");
    Ok(res)
}

/// A client may make methods up; the label may not.
fn method_label(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        _ => "other",
    }
}
