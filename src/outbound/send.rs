//! Making a request: redirects, retries, and reading the body.

use std::error::Error as _;
use std::net::IpAddr;
use std::time::Duration;

use chrono::{DateTime, Utc};
use rand::RngExt;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION, RETRY_AFTER};
use reqwest::{Method, Response, StatusCode, Url};
use tokio::time::Instant;
use url::Host;

use super::address::NotReachable;
use super::{Answer, Call, Cut, Failure, Outbound};

/// The most redirects that are followed.
const MAX_REDIRECTS: usize = 5;
/// How long to wait before the first retry; twice as long before each further one, and up to half as long again.
const BACK_OFF: Duration = Duration::from_millis(200);
/// How long a name may be looked up.
const LOOK_UP: Duration = Duration::from_secs(5);
/// The longest that a host is left alone, whatever it asks.
const MAX_REST: Duration = Duration::from_secs(3600);
/// What more of them are called. It is not tried again: they would lead in the same circle.
const TOO_MANY_REDIRECTS: &str = "it redirects too often";

impl Outbound {
    /// The addresses of a host that may be connected to, for what is not HTTP. They are to be connected to as they are:
    /// looked up again, the name may have others.
    ///
    /// # Errors
    /// [`Failure`].
    pub async fn addresses(&self, host: &str) -> Result<Vec<IpAddr>, Failure> {
        let unreachable =
            || Failure::Unreachable { host: host.to_owned(), why: "its name cannot be looked up" };
        let found = match (host.parse::<IpAddr>(), Host::parse(host)) {
            (Ok(address), _) => vec![address],
            (_, Ok(Host::Ipv4(address))) => vec![address.into()],
            (_, Ok(Host::Ipv6(address))) => vec![address.into()],
            (_, Ok(Host::Domain(name))) => {
                let found = tokio::time::timeout(LOOK_UP, self.lookup.lookup(name)).await;
                let found = found.map_err(|_| unreachable())?.map_err(|_| unreachable())?;
                found.into_iter().map(|address| address.ip()).collect()
            }
            (_, Err(_)) => return Err(unreachable()),
        };
        let good: Vec<IpAddr> =
            found.into_iter().filter(|address| self.allowed.may_reach(*address)).collect();
        match good.is_empty() {
            true => Err(Failure::Refused { host: host.to_owned(), why: "it has no public address" }),
            false => Ok(good),
        }
    }

    /// Makes a request. Any status is an answer; but 429, where the host says when to come back and that is too late for
    /// this request, is [`Failure::RateLimited`].
    ///
    /// # Errors
    /// [`Failure`].
    pub async fn send(&self, call: &Call) -> Result<Answer, Failure> {
        let host = host_of(&call.url);
        let timeout = Failure::Timeout { host: host.clone(), seconds: call.timeout.as_secs().max(1) };
        let deadline = Instant::now() + call.timeout;
        let mut attempts = 0;
        loop {
            attempts += 1;
            let tried = tokio::time::timeout_at(deadline, self.follow(call)).await;
            let tried = tried.map_err(|_| timeout.clone())?;
            let asked = tried.as_ref().ok().and_then(|answer| retry_after(&answer.headers, Utc::now()));
            if let Some(time) = asked.filter(|_| tried.as_ref().is_ok_and(|answer| is_busy(answer.status))) {
                let busy = tried.as_ref().map_or(&call.url, |answer| &answer.url);
                self.pace.rest(&place(busy, call.account), time);
            }
            let again = match &tried {
                Ok(answer) => is_busy(answer.status) || answer.status.is_server_error(),
                Err(failure) => {
                    matches!(failure, Failure::Unreachable { why, .. } if *why != TOO_MANY_REDIRECTS)
                }
            };
            let wait = asked.unwrap_or_else(|| back_off(attempts));
            if again && attempts <= call.retries && Instant::now() + wait < deadline {
                tokio::time::sleep(wait).await;
                continue;
            }
            return match tried {
                Ok(answer) if answer.status == StatusCode::TOO_MANY_REQUESTS => {
                    let seconds = asked.map_or(1, |time| time.as_secs().max(1));
                    Err(Failure::RateLimited { host: host_of(&answer.url), seconds })
                }
                tried => tried.map(|answer| Answer { attempts, ..answer }),
            };
        }
    }

    /// One try, through its redirects.
    async fn follow(&self, call: &Call) -> Result<Answer, Failure> {
        let mut url = call.url.clone();
        let mut headers = call.headers.clone();
        for _ in 0..=MAX_REDIRECTS {
            self.check(&url)?;
            let host = host_of(&url);
            self.pace.take(&place(&url, call.account)).map_err(|wait| Failure::RateLimited {
                host: host.clone(),
                seconds: wait.as_secs().max(1),
            })?;
            let mut request = self.client.request(call.method.clone(), url.clone()).headers(headers.clone());
            if let Some(body) = &call.body {
                if !headers.contains_key(CONTENT_TYPE) {
                    request = request.header(CONTENT_TYPE, HeaderValue::from_static("application/json"));
                }
                request = request.body(body.clone());
            }
            let response = request.send().await.map_err(|error| failure(&host, &error, call.timeout))?;
            let Some(next) = redirect(&call.method, &url, &response) else {
                return Ok(read(response, call.max_bytes).await);
            };
            if next.origin() != url.origin() {
                // What was meant for one host is no other's.
                headers = HeaderMap::new();
            }
            url = next;
        }
        Err(Failure::Unreachable { host: host_of(&call.url), why: TOO_MANY_REDIRECTS })
    }

    /// Refuses what is never asked. An address that is written as one is not looked up, so it is checked here.
    fn check(&self, url: &Url) -> Result<(), Failure> {
        let refused = |why| Err(Failure::Refused { host: host_of(url), why });
        if !matches!(url.scheme(), "http" | "https") {
            return refused("only http and https are spoken");
        }
        if !url.username().is_empty() || url.password().is_some() {
            return refused("a URL must not hold a user or a password");
        }
        let address = match url.host() {
            Some(Host::Ipv4(address)) => address.into(),
            Some(Host::Ipv6(address)) => address.into(),
            Some(Host::Domain(_)) => return Ok(()),
            None => return refused("it has no host"),
        };
        if self.allowed.may_reach(address) { Ok(()) } else { refused("the address is not a public one") }
    }
}

impl Answer {
    /// When its host says to come back.
    pub fn retry_after(&self, now: DateTime<Utc>) -> Option<Duration> {
        retry_after(&self.headers, now)
    }
}

fn is_busy(status: StatusCode) -> bool {
    matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE)
}

fn back_off(attempts: u32) -> Duration {
    let wait = BACK_OFF * 2_u32.saturating_pow(attempts - 1).min(64);
    wait + wait.mul_f64(rand::rng().random_range(0.0..0.5))
}

/// What a pace is kept of: a host and the port, and the account there.
fn place(url: &Url, account: Option<i64>) -> String {
    let account = account.map_or_else(String::new, |account| format!("{account}@"));
    format!("{account}{}:{}", host_of(url), url.port_or_known_default().unwrap_or_default())
}

/// The host, which is all that is ever told of a URL. A dot at its end makes no other host of it.
pub(super) fn host_of(url: &Url) -> String {
    url.host_str().unwrap_or("the host").trim_end_matches('.').to_owned()
}

/// Where a redirect leads. Only a GET follows one: a POST is not sent to whom it was not meant for.
fn redirect(method: &Method, from: &Url, response: &Response) -> Option<Url> {
    let followed =
        matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) && *method == Method::GET;
    let location = response.headers().get(LOCATION).filter(|_| followed)?;
    from.join(location.to_str().ok()?).ok()
}

/// When to come back: seconds, or a date of HTTP. At most [`MAX_REST`]: a host may write any number.
fn retry_after(headers: &HeaderMap, now: DateTime<Utc>) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let time = match !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit()) {
        true => value.parse().map_or(MAX_REST, Duration::from_secs),
        false => (DateTime::parse_from_rfc2822(value).ok()?.to_utc() - now).to_std().unwrap_or_default(),
    };
    Some(time.min(MAX_REST))
}

async fn read(mut response: Response, max_bytes: usize) -> Answer {
    let (status, headers, url) = (response.status(), response.headers().clone(), response.url().clone());
    let mut body: Vec<u8> = Vec::new();
    let cut = loop {
        match response.chunk().await {
            Ok(Some(chunk)) if body.len() + chunk.len() > max_bytes => {
                body.extend_from_slice(&chunk[..max_bytes - body.len()]);
                break Some(Cut::TooLarge);
            }
            Ok(Some(chunk)) => body.extend_from_slice(&chunk),
            Ok(None) => break None,
            Err(_) => break Some(Cut::Ended),
        }
    };
    Answer { status, headers, url, body, cut, attempts: 1 }
}

/// What went wrong, in our own words: the library's errors print whole URLs.
fn failure(host: &str, error: &reqwest::Error, timeout: Duration) -> Failure {
    let host = host.to_owned();
    let mut source = error.source();
    while let Some(cause) = source {
        if cause.is::<NotReachable>() {
            return Failure::Refused { host, why: "its name has no public address" };
        }
        source = cause.source();
    }
    match () {
        _ if error.is_timeout() && !error.is_connect() => {
            Failure::Timeout { host, seconds: timeout.as_secs().max(1) }
        }
        _ if error.is_connect() => Failure::Unreachable { host, why: "no connection could be made" },
        _ => Failure::Unreachable { host, why: "the connection ended before an answer came" },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_to_come_back() {
        let now = DateTime::parse_from_rfc2822("Wed, 21 Oct 2015 07:28:00 GMT").unwrap().to_utc();
        for (value, seconds) in [
            ("3", Some(3)),
            ("0", Some(0)),
            ("Wed, 21 Oct 2015 07:28:30 GMT", Some(30)),
            ("Wed, 21 Oct 2015 07:00:00 GMT", Some(0)),
            ("18446744073709551615", Some(3600)),
            ("99999999999999999999999", Some(3600)),
            ("Fri, 31 Dec 9999 23:59:59 GMT", Some(3600)),
            ("", None),
            ("soon", None),
            ("-1", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, value.parse().unwrap());
            assert_eq!(retry_after(&headers, now).map(|time| time.as_secs()), seconds, "{value}");
        }
    }
}
