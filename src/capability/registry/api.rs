//! A registered API: a base URL, and how requests to it authenticate.

use serde::{Deserialize, Serialize};
use url::Url;
use utoipa::ToSchema;

use super::{Registration, SourceKind, Trust, Wrong};
use crate::corpora::entry::{Id, http_url};
use crate::error::Result;

/// The longest time that an API may take, in seconds.
const MAX_TIMEOUT: u32 = 60;

/// An API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = NewApiSource)]
#[serde(deny_unknown_fields)]
pub struct Api {
    /// An `http` or `https` URL that every request begins with; without credentials, a query or a fragment.
    #[schema(example = "https://api.weather.example/v2")]
    pub base_url: String,
    /// How requests authenticate; by default they do not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<Auth>,
    /// How long a request may take, in seconds, retries included: 1 to 60.
    #[serde(default = "default_timeout")]
    #[schema(default = 20, minimum = 1, maximum = 60, example = 20)]
    pub timeout_seconds: u32,
    /// How much it is to be trusted.
    #[serde(default)]
    #[schema(default = "medium", example = "high")]
    pub authority: crate::authority::Authority,
    /// Whether what it gives grows stale.
    #[serde(default)]
    #[schema(default = false, example = true)]
    pub volatile: bool,
    /// The age in seconds past which it does, by default a day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>, minimum = 0, maximum = 4294967295i64, example = 3600)]
    pub max_age_seconds: Option<u32>,
}

fn default_timeout() -> u32 {
    20
}

/// How requests authenticate, with a stored secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = ApiAuth)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Auth {
    /// `Authorization: Bearer <secret>`.
    Bearer {
        /// The secret's name.
        #[schema(example = "weather-token")]
        secret: Id,
    },
    /// A header that holds the secret alone.
    Header {
        /// The header's name.
        #[schema(example = "x-api-key")]
        header: String,
        /// The secret's name.
        #[schema(example = "weather-token")]
        secret: Id,
    },
    /// `Authorization: Basic`, with a user and the secret as the password.
    Basic {
        /// The user.
        #[schema(example = "reader")]
        user: String,
        /// The secret's name.
        #[schema(example = "weather-token")]
        secret: Id,
    },
    /// A parameter of the URL's query.
    Query {
        /// The parameter's name.
        #[schema(example = "key")]
        parameter: String,
        /// The secret's name.
        #[schema(example = "weather-token")]
        secret: Id,
    },
}

impl Auth {
    /// The name of the secret.
    pub fn secret(&self) -> &Id {
        match self {
            Auth::Bearer { secret }
            | Auth::Header { secret, .. }
            | Auth::Basic { secret, .. }
            | Auth::Query { secret, .. } => secret,
        }
    }
}

/// Headers that are not a registration's to set.
const OURS: &[&str] = &[
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "accept-encoding",
    "te",
    "upgrade",
    "trailer",
];

impl Registration for Api {
    const KIND: SourceKind = SourceKind::Api;

    fn check(&self) -> Result<()> {
        let mut wrong = Wrong::default();
        let url = http_url(&self.base_url);
        wrong.unless(
            url.is_ok_and(|url| url.query().is_none()),
            "/base_url",
            "must be an http or https URL without a user, a password, a query or a fragment",
        );
        let timeout = (1..=MAX_TIMEOUT).contains(&self.timeout_seconds);
        wrong.unless(timeout, "/timeout_seconds", format!("must be from 1 to {MAX_TIMEOUT}"));
        let plain = |text: &str| !text.is_empty() && text.len() <= 256 && !text.chars().any(char::is_control);
        match &self.auth {
            Some(Auth::Header { header, .. }) => {
                let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
                let good = plain(header)
                    && header.bytes().all(token)
                    && !OURS.contains(&header.to_ascii_lowercase().as_str());
                wrong.unless(good, "/auth/header", "must be the name of a header that requests may set");
            }
            Some(Auth::Basic { user, .. }) => {
                wrong.unless(
                    plain(user) && !user.contains(':'),
                    "/auth/user",
                    "must be a user without a colon",
                );
            }
            Some(Auth::Query { parameter, .. }) => {
                wrong.unless(plain(parameter), "/auth/parameter", "must be the name of a parameter");
            }
            Some(Auth::Bearer { .. }) | None => {}
        }
        wrong.done()
    }
}

impl Api {
    /// What is said of its trust.
    pub fn trust(&self) -> Trust {
        let Api { authority, volatile, max_age_seconds, .. } = *self;
        Trust { authority, volatile, max_age_seconds }
    }

    /// The URL of a path below the base, with a query, and the same as a citation has it: `<path>?<query>`. Nothing
    /// of authentication is in either.
    ///
    /// # Errors
    /// A sentence, for a path that would leave the base.
    pub fn locate(&self, path: &str, query: &[(String, String)]) -> Result<(Url, String), String> {
        const ESCAPES: &str = "the path must stay below the API's base URL: without `.` and `..`, backslashes and \
                               encoded slashes";
        if !stays(path) {
            return Err(ESCAPES.into());
        }
        let mut url = http_url(&self.base_url)?;
        let base = url.path().trim_end_matches('/').to_owned();
        if !path.is_empty() {
            url.set_path(&format!("{base}/{path}"));
        }
        let below = format!("{base}/");
        let relative = url.path().strip_prefix(&below).unwrap_or_default().to_owned();
        if !path.is_empty() && !url.path().starts_with(&below) {
            return Err(ESCAPES.into());
        }
        if query.is_empty() {
            return Ok((url, relative));
        }
        url.query_pairs_mut().extend_pairs(query);
        let cited = format!("{relative}?{}", url.query().unwrap_or_default());
        Ok((url, cited))
    }
}

/// Whether no segment of a path is one that leads up, however often it was encoded.
fn stays(path: &str) -> bool {
    let mut text = path.to_owned();
    // Each decoding that changes anything makes it shorter; servers decode once or twice.
    for _ in 0..4 {
        let up = text.split('/').any(|segment| matches!(segment, "." | ".."));
        if up || text.contains('\\') || text.chars().any(char::is_control) {
            return false;
        }
        let Ok(decoded) = percent_encoding::percent_decode_str(&text).decode_utf8() else { return false };
        if decoded.matches('/').count() != text.matches('/').count() {
            return false;
        }
        if decoded == text {
            return true;
        }
        text = decoded.into_owned();
    }
    false
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn api(base: &str) -> Api {
        serde_json::from_value(json!({"base_url": base})).unwrap()
    }

    #[test]
    fn paths_lie_below_the_base() {
        let pairs = |pairs: &[(&str, &str)]| -> Vec<_> {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        for (base, path, query, url, cited) in [
            ("https://a.example/v2", "x/y", &[][..], "https://a.example/v2/x/y", "x/y"),
            ("https://a.example/v2/", "x", &[], "https://a.example/v2/x", "x"),
            ("https://a.example", "x", &[], "https://a.example/x", "x"),
            ("https://a.example/v2", "", &[], "https://a.example/v2", ""),
            ("https://a.example/v2", "a b?#", &[], "https://a.example/v2/a%20b%3F%23", "a%20b%3F%23"),
            ("https://a.example/v2", "a%20b", &[], "https://a.example/v2/a%20b", "a%20b"),
            (
                "https://a.example/v2",
                "//b.example/x",
                &[],
                "https://a.example/v2///b.example/x",
                "//b.example/x",
            ),
            ("https://a.example/v2", "http://b/", &[], "https://a.example/v2/http://b/", "http://b/"),
            (
                "https://a.example/v2",
                "x",
                &[("q", "a&b"), ("é", "")],
                "https://a.example/v2/x?q=a%26b&%C3%A9=",
                "x?q=a%26b&%C3%A9=",
            ),
        ] {
            let (found, name) = api(base).locate(path, &pairs(query)).unwrap();
            assert_eq!((found.as_str(), name.as_str()), (url, cited), "{base} {path}");
            // What is cited is the same target again.
            let (path, query) = name.split_once('?').unwrap_or((&name, ""));
            let query: Vec<_> = url::form_urlencoded::parse(query.as_bytes()).into_owned().collect();
            assert_eq!(api(base).locate(path, &query).unwrap(), (found, name.clone()));
        }
        for path in [
            "..",
            "../x",
            "x/../../y",
            "./x",
            "%2e%2e/x",
            "%2E./x",
            ".%2e",
            "x/%2e%2e%2f",
            "..%2fx",
            "%252e%252e/x",
            "x%5c..",
            "\\x",
            "%25%32%65%25%32%65",
            "x%2fy",
            "x\ny",
            "%00",
            "%ff",
        ] {
            assert!(api("https://a.example/v2").locate(path, &[]).is_err(), "{path}");
        }
    }

    #[test]
    fn wrong_registrations_are_refused_by_pointer() {
        for (document, at) in [
            (json!({"base_url": "ftp://x"}), "/base_url"),
            (json!({"base_url": "https://u:p@x"}), "/base_url"),
            (json!({"base_url": "https://x?key=1"}), "/base_url"),
            (json!({"base_url": "https://x", "timeout_seconds": 61}), "/timeout_seconds"),
            (
                json!({"base_url": "https://x", "auth": {"kind": "header", "header": "Host", "secret": "s"}}),
                "/auth/header",
            ),
            (
                json!({"base_url": "https://x", "auth": {"kind": "header", "header": "a b", "secret": "s"}}),
                "/auth/header",
            ),
            (
                json!({"base_url": "https://x", "auth": {"kind": "basic", "user": "a:b", "secret": "s"}}),
                "/auth/user",
            ),
            (
                json!({"base_url": "https://x", "auth": {"kind": "query", "parameter": "", "secret": "s"}}),
                "/auth/parameter",
            ),
        ] {
            let api: Api = serde_json::from_value(document.clone()).unwrap();
            assert_eq!(api.check().unwrap_err().errors[0].pointer, at, "{document}");
        }
    }
}
