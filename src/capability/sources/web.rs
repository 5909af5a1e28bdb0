//! Pages of the web: an `http` or `https` URL, read by GET.

use std::time::Duration;

use chrono::{DateTime, Utc};
use reqwest::StatusCode;
use reqwest::header::{
    CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ETAG, HeaderMap, HeaderName, LAST_MODIFIED,
};
use url::Url;

use super::Source;
use crate::app::App;
use crate::authority::Authority;
use crate::capability::format::MAX_DATA;
use crate::capability::ops::registry;
use crate::capability::outcome::{Fetched, Missed, Origin, Outcome, Reason};
use crate::capability::request::Request;
use crate::capability::target::SourceType;
use crate::ctx::Ctx;
use crate::error::Result;
use crate::outbound::{Answer, Call, Cut, Failure};

/// How long a source may take, retries included.
pub(super) const TIMEOUT: Duration = Duration::from_secs(20);
/// How often it is tried again.
pub(super) const RETRIES: u32 = 2;
/// Bytes that are read at most, decompressed.
pub(super) const MAX_BYTES: usize = MAX_DATA;

/// A page. One below the base URL of a registered API is trusted as that is, any other little.
pub struct Web<'a>(pub &'a Url);

impl Source for Web<'_> {
    async fn fetch(&self, app: &App, ctx: &Ctx, _: &Request) -> Result<Outcome> {
        let mut url = self.0.clone();
        url.set_fragment(None);
        let known = Known { origin: origin(&url), volatile: false, max_age_seconds: None };
        let call = Call { retries: RETRIES, ..Call::get(url, TIMEOUT, MAX_BYTES) };
        Ok(match app.outbound.send(&call).await {
            Ok(answer) => {
                // What redirects is cited by where it led.
                let mut known = Known { origin: origin(&answer.url), ..known };
                let url = answer.url.to_string();
                if let Some(trust) = app.db.tenant(ctx.tenant, move |tx| registry::trust_in(tx, &url)).await?
                {
                    known.origin.authority = trust.authority;
                    known.volatile = trust.volatile;
                    known.max_age_seconds = trust.max_age_seconds.map(i64::from);
                }
                fetched(known, answer, Utc::now()).map(|fetched| self.whole(fetched))
            }
            Err(failure) => Err(missed(known.origin, &failure, ctx.now)),
        }
        .into())
    }
}

impl Web<'_> {
    /// A fragment is never sent: what it names is for the reader of the page to find.
    fn whole(&self, mut fetched: Fetched) -> Fetched {
        if self.0.fragment().is_some_and(|fragment| !fragment.is_empty()) {
            fetched.assumptions.push("The fragment of the URL was left out; the whole page is given.".into());
        }
        fetched
    }
}

/// What a URL is as a source.
fn origin(url: &Url) -> Origin {
    Origin {
        kind: SourceType::Web,
        source: format!("web:{}", url.host_str().unwrap_or_default()),
        reference: Some(url.to_string()),
        anchor: format!("url:{url}"),
        authority: Authority::Low,
    }
}

/// What is known of a source before it is asked.
#[derive(Debug, Clone)]
pub(super) struct Known {
    pub origin: Origin,
    /// Whether it grows stale.
    pub volatile: bool,
    /// The age in seconds past which it does.
    pub max_age_seconds: Option<i64>,
}

/// What an answer gives.
pub(super) fn fetched(known: Known, answer: Answer, now: DateTime<Utc>) -> Result<Fetched, Box<Missed>> {
    let Known { origin, volatile, max_age_seconds } = known;
    let status = answer.status;
    if !status.is_success() {
        let reason = match status.as_u16() {
            401 | 403 | 407 | 451 => Reason::Refused,
            404 => Reason::NotFound,
            410 => Reason::Gone,
            408 | 504 => Reason::Timeout,
            _ => Reason::Unreachable,
        };
        let tries = if answer.attempts > 1 { format!(" ({} tries)", answer.attempts) } else { String::new() };
        return Err(Missed::new(
            origin,
            reason,
            format!("the source answered with status {status}{tries}"),
            now,
        ));
    }
    let header = |name: HeaderName| text_of(&answer.headers, name);
    // What was decompressed no longer has this header.
    if header(CONTENT_ENCODING).is_some_and(|coding| !coding.eq_ignore_ascii_case("identity")) {
        let detail = "the body was sent in an encoding of content that was not offered to the source";
        return Err(Missed::new(origin, Reason::FormatMismatch, detail, now));
    }
    let said = header(LAST_MODIFIED);
    let last_modified =
        said.as_deref().and_then(|date| DateTime::parse_from_rfc2822(date).ok()).map(|date| date.to_utc());
    let transport = if answer.url.scheme() == "https" { "HTTPS" } else { "plain HTTP" };
    let part = status == StatusCode::PARTIAL_CONTENT;
    let whole = answer.cut.is_none() && !part;
    let hashed = if whole { "its SHA-256 was taken of all its bytes" } else { "not all its bytes were read" };
    let mut assumptions = Vec::new();
    let cut = match answer.cut {
        Some(Cut::TooLarge) => {
            Some((Reason::TooLarge, format!("only the first {MAX_BYTES} bytes were read")))
        }
        Some(Cut::Ended) => {
            Some((Reason::Unreachable, "the connection ended before the body did".to_owned()))
        }
        None if part => Some((Reason::Unreachable, "the source sent only a part, unasked".to_owned())),
        None => None,
    };
    if let Some((_, detail)) = &cut {
        assumptions.push(format!("What is given is not all: {detail}."));
    }
    if answer.attempts > 1 {
        assumptions.push(format!("The source was asked {} times until it answered so.", answer.attempts));
    }
    let length = header(CONTENT_LENGTH).and_then(|length| length.parse().ok());
    Ok(Fetched {
        reliability: format!(
            "Fetched over {transport} with status {}; not versioned here, and {hashed}.",
            status.as_u16()
        ),
        name: answer.url.path().to_owned(),
        media_type: header(CONTENT_TYPE),
        version: header(ETAG).or(said),
        utf8: false,
        original_size: length.filter(|_| !whole && !part),
        bytes: answer.body,
        read_at: now,
        origin,
        cut,
        last_modified,
        volatile,
        max_age_seconds,
        assumptions,
    })
}

fn text_of(headers: &HeaderMap, name: HeaderName) -> Option<String> {
    headers.get(name)?.to_str().ok().map(str::to_owned)
}

/// Why nothing came back.
pub(super) fn missed(origin: Origin, failure: &Failure, now: DateTime<Utc>) -> Box<Missed> {
    let reason = match failure {
        Failure::Refused { .. } => Reason::Refused,
        Failure::Unreachable { .. } => Reason::Unreachable,
        Failure::Timeout { .. } => Reason::Timeout,
        Failure::RateLimited { .. } => Reason::RateLimited,
    };
    Missed::new(origin, reason, failure.to_string(), now)
}
