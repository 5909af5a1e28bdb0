//! Registered APIs: a GET below the base URL, with the secret that the registration names.

use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use chrono::Utc;
use reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue};
use url::Url;

use super::web::{Known, MAX_BYTES, RETRIES, fetched, missed};
use super::{Source, revealed, unregistered};
use crate::app::App;
use crate::authority::Authority;
use crate::capability::ops::registry;
use crate::capability::outcome::{Missed, Origin, Outcome, Reason};
use crate::capability::registry::Registered;
use crate::capability::registry::api::{Api as Registration, Auth};
use crate::capability::request::Request;
use crate::capability::target::SourceType;
use crate::ctx::Ctx;
use crate::error::Result;
use crate::outbound::{Call, HeaderMap};

/// A path of an API.
pub struct Api<'a> {
    /// The API's name.
    pub api: &'a str,
    /// The path below its base URL.
    pub path: &'a str,
    /// Parameters of the query.
    pub query: &'a [(String, String)],
}

impl Source for Api<'_> {
    async fn fetch(&self, app: &App, ctx: &Ctx, _: &Request) -> Result<Outcome> {
        let (name, secrets, asking) = (self.api.to_owned(), app.secrets.clone(), ctx.clone());
        let found = app.db.tenant(ctx.tenant, move |tx| {
            let Some(found) = registry::find::<Registration>(tx, &name)? else { return Ok(None) };
            let secret = found.definition.auth.as_ref().map(|auth| auth.secret().clone());
            let secret = secret.map(|secret| revealed(tx, &asking, &secrets, &secret)).transpose()?;
            Ok(Some((found, secret)))
        });
        let Some((Registered { definition, .. }, secret)) = found.await? else {
            return Ok(unregistered(SourceType::Api, self.api, ctx));
        };
        let trust = definition.trust();
        let origin = |cited: Option<&str>| Origin {
            kind: SourceType::Api,
            source: format!("api:{}", self.api),
            reference: cited.map(|cited| format!("api:{}/{cited}", self.api)),
            anchor: format!("api:{}/{}", self.api, cited.unwrap_or(self.path)),
            authority: trust.authority,
        };
        let refused =
            |origin, detail: String| Ok(Err(Missed::new(origin, Reason::Refused, detail, ctx.now)).into());
        let (url, cited) = match definition.locate(self.path, self.query) {
            Ok(found) => found,
            Err(detail) => return refused(origin(None), detail),
        };
        let origin = origin(Some(&cited));
        let secret = match secret.transpose() {
            Ok(secret) => secret,
            Err(detail) => return refused(origin, detail),
        };
        let timeout = Duration::from_secs(definition.timeout_seconds.into());
        let mut call = Call { retries: RETRIES, ..Call::get(url, timeout, MAX_BYTES) };
        if let (Some(auth), Some(secret)) = (&definition.auth, &secret)
            && let Err(detail) = authenticate(auth, secret.expose(), &mut call.url, &mut call.headers)
        {
            return refused(origin, detail.to_owned());
        }
        let max_age_seconds = trust.max_age_seconds.map(i64::from);
        let known = Known { origin, volatile: trust.volatile, max_age_seconds };
        Ok(match app.outbound.send(&call).await {
            // What another host gave was not vouched for.
            Ok(answer) if answer.url.origin() != call.url.origin() => {
                let authority = Authority::Low;
                let known = Known { origin: Origin { authority, ..known.origin }, ..known };
                fetched(known, answer, Utc::now()).map(|mut fetched| {
                    fetched.assumptions.push("The API redirected to another host, which gave this.".into());
                    fetched
                })
            }
            Ok(answer) => fetched(known, answer, Utc::now()),
            Err(failure) => Err(missed(known.origin, &failure, ctx.now)),
        }
        .into())
    }
}

/// Puts the secret where the API wants it.
fn authenticate(
    auth: &Auth,
    secret: &str,
    url: &mut Url,
    headers: &mut HeaderMap,
) -> Result<(), &'static str> {
    let (name, value) = match auth {
        Auth::Bearer { .. } => (AUTHORIZATION, format!("Bearer {secret}")),
        Auth::Header { header, .. } => {
            let name = HeaderName::try_from(header.as_str());
            (name.map_err(|_| "the API's header has no name that can be sent")?, secret.to_owned())
        }
        Auth::Basic { user, .. } => {
            (AUTHORIZATION, format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{secret}"))))
        }
        Auth::Query { parameter, .. } => {
            if url.query_pairs().any(|(name, _)| name == parameter.as_str()) {
                return Err("the query has the parameter that the API authenticates by");
            }
            url.query_pairs_mut().append_pair(parameter, secret);
            return Ok(());
        }
    };
    let value = HeaderValue::try_from(value);
    let mut value = value.map_err(|_| "the API's secret holds what no header can hold")?;
    value.set_sensitive(true);
    headers.insert(name, value);
    Ok(())
}
