//! Requests to other hosts: the one client that they all go through (provenance, "Safety").
//!
//! What always holds:
//!
//! * Only `http` and `https`, and only to addresses that are anybody's to reach ([`address`]), unless the operator listed
//!   them. The address is checked when the connection is made, after the name was looked up, and again for each redirect;
//!   a name that means another address the next time gains nothing.
//! * No proxy of the environment is used. A redirect to another origin carries no credentials.
//! * Time is bounded as a whole, retries included; so is the size of a body, counted as it is decompressed.
//! * No error tells more of a URL than its host: paths, queries and headers may hold secrets.

pub mod address;
mod pace;
mod send;

use std::fmt;
use std::sync::{Arc, Once};
use std::time::Duration;

use address::Allowed;
use pace::Pace;
pub use reqwest::header::HeaderMap;
use reqwest::{Method, StatusCode, Url};

/// Chooses who does the cryptography of TLS, for the whole process; without it no client can be built. May be called
/// any number of times.
pub fn install_tls() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        // Fails where the process has chosen already, which serves as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

/// How requests to other hosts are made.
#[derive(Debug, Clone, clap::Args)]
pub struct OutboundConfig {
    /// Addresses that requests may go to although they are private: networks such as 10.1.0.0/16, or single addresses,
    /// with commas. Unset: none
    #[arg(long, env = "SLATEBASE_OUTBOUND_ALLOW", value_name = "NETWORKS", value_delimiter = ',')]
    pub outbound_allow: Vec<address::Network>,

    /// Requests that may be made to one host in a second; twice as many at once
    #[arg(long, env = "SLATEBASE_OUTBOUND_RATE", default_value_t = 10, value_name = "COUNT",
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub outbound_rate: u32,
}

/// The client. Cheap to clone.
#[derive(Clone)]
pub struct Outbound {
    client: reqwest::Client,
    lookup: Arc<dyn address::Lookup>,
    allowed: Allowed,
    pace: Arc<Pace>,
}

/// A request. Printed, it tells its host alone.
#[derive(Clone)]
pub struct Call {
    /// GET, or POST.
    pub method: Method,
    /// Where to.
    pub url: Url,
    /// What to send along. A redirect to another origin does not carry them on.
    pub headers: HeaderMap,
    /// The body of a POST, which is JSON unless the headers tell another media type.
    pub body: Option<Vec<u8>>,
    /// How long it may take, redirects and retries included.
    pub timeout: Duration,
    /// Bytes of the answer that are read at most, decompressed.
    pub max_bytes: usize,
    /// How often it is tried again after 429, 5xx and a failure to connect.
    pub retries: u32,
    /// The tenant by whose account at the host it is made: its pace there is kept apart, since what the host has had
    /// enough of is that account. Without one, it counts to the pace that all share.
    pub account: Option<i64>,
}

impl Call {
    /// A GET that is not tried again.
    pub fn get(url: Url, timeout: Duration, max_bytes: usize) -> Call {
        let (method, headers) = (Method::GET, HeaderMap::new());
        Call { method, url, headers, body: None, timeout, max_bytes, retries: 0, account: None }
    }

    /// A POST of JSON that is not tried again.
    pub fn post(url: Url, body: Vec<u8>, timeout: Duration, max_bytes: usize) -> Call {
        Call { method: Method::POST, body: Some(body), ..Call::get(url, timeout, max_bytes) }
    }
}

/// What came back, whatever its status. Printed, it tells no URL and no contents.
#[derive(Clone)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// Where it came from in the end.
    pub url: Url,
    /// The body, decompressed, as far as it was read.
    pub body: Vec<u8>,
    /// Why the body is not whole, where it is not.
    pub cut: Option<Cut>,
    /// How often it was tried.
    pub attempts: u32,
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Call({} to {})", self.method, send::host_of(&self.url))
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (host, length) = (send::host_of(&self.url), self.body.len());
        write!(f, "Answer({} of {host}, {length} bytes, {:?})", self.status, self.cut)
    }
}

/// Why a body is not whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// It is larger than was to be read.
    TooLarge,
    /// The connection ended before it did.
    Ended,
}

/// Why nothing came back.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// Such a request is not made.
    #[error("requests to {host} are not made: {why}")]
    Refused {
        /// The host.
        host: String,
        /// Why, in a few words.
        why: &'static str,
    },
    /// The host cannot be reached.
    #[error("{host} cannot be reached: {why}")]
    Unreachable {
        /// The host.
        host: String,
        /// Why, in a few words.
        why: &'static str,
    },
    /// It took too long.
    #[error("{host} did not answer within {seconds} s")]
    Timeout {
        /// The host.
        host: String,
        /// How long was waited.
        seconds: u64,
    },
    /// The host was asked often enough, by our own measure or by its.
    #[error("{host} has been asked too often; ask again in {seconds} s")]
    RateLimited {
        /// The host.
        host: String,
        /// When to ask again, from 1.
        seconds: u64,
    },
}

impl Outbound {
    /// The client.
    ///
    /// # Errors
    /// When no client can be built.
    pub fn new(config: &OutboundConfig) -> anyhow::Result<Outbound> {
        Outbound::with_resolver(config, Arc::new(address::System))
    }

    /// The same with another way to look names up, for tests.
    ///
    /// # Errors
    /// As [`Outbound::new`].
    pub fn with_resolver(
        config: &OutboundConfig,
        lookup: Arc<dyn address::Lookup>,
    ) -> anyhow::Result<Outbound> {
        install_tls();
        let allowed = Allowed::new(&config.outbound_allow);
        let builder = || {
            reqwest::Client::builder()
                .no_proxy()
                .referer(false)
                .redirect(reqwest::redirect::Policy::none())
                .dns_resolver(Arc::new(address::Checked::new(lookup.clone(), allowed.clone())))
                .connect_timeout(Duration::from_secs(5))
                .user_agent(concat!("slatebase/", env!("CARGO_PKG_VERSION")))
        };
        let client = builder().build().or_else(|error| {
            // All else than https works on a machine that trusts nobody, and so does the service.
            tracing::warn!(%error, "the system has no certificates to trust: requests over https will fail");
            builder().tls_certs_only([]).build()
        })?;
        Ok(Outbound { client, lookup, allowed, pace: Arc::new(Pace::new(config.outbound_rate)) })
    }
}
