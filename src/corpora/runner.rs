//! Asking a gateway at another host (corpora, "Route", "Prefetch").

use chrono::{DateTime, Utc};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use serde_json::{Value, json};

use super::corpus::{Corpus, Place};
use super::entry::Id;
use super::pack::{self, Fetched, Packed, Reason, Unpacked};
use crate::app::App;
use crate::ctx::Ctx;
use crate::error::{Code, Error, Result};
use crate::outbound::{Call, Cut};
use crate::provenance::received::Received;
use crate::provenance::record::Item;
use crate::secrets;

/// The most bytes of a gateway's answer.
const MAX_ANSWER: usize = 4 << 20;

/// Asks a corpus's gateway for the goal, once. What goes wrong is told in the result within.
///
/// # Errors
/// Those of the database.
pub async fn search(
    app: &App,
    ctx: &Ctx,
    corpus: &Corpus,
    goal: Option<&Value>,
) -> Result<Result<Fetched, Unpacked>> {
    let id = corpus.row.id.as_str();
    let wrong = |reason, why: &dyn std::fmt::Display| {
        Ok(Err(Unpacked::new(reason, format!("the corpus `{id}`: {why}"))))
    };
    let Place::Http(url) = &corpus.row.place else {
        return wrong(Reason::GatewayError, &"it lies in a slate");
    };
    let headers = match bearer(app, ctx, corpus.row.secret.as_ref()).await? {
        Ok(headers) => headers,
        Err(why) => return wrong(Reason::GatewayError, &why),
    };
    let none = json!({});
    let body = json!({"collection": corpus.row.collection, "goal": goal.unwrap_or(&none)});
    let body = serde_json::to_vec(&body).map_err(Error::internal)?;
    let call = Call { headers, ..Call::post(url.clone(), body, corpus.row.timeout, MAX_ANSWER) };
    let answer = match app.outbound.send(&call).await {
        Ok(answer) => answer,
        Err(failure) => return wrong(Reason::GatewayUnreachable, &failure),
    };
    match answer.cut {
        Some(Cut::Ended) => return wrong(Reason::GatewayUnreachable, &"its answer ended early"),
        Some(Cut::TooLarge) => {
            return wrong(Reason::GatewayError, &format_args!("its answer has more than {MAX_ANSWER} bytes"));
        }
        None => {}
    }
    if !answer.status.is_success() {
        return wrong(
            Reason::GatewayError,
            &format_args!("its gateway answered with status {}", answer.status.as_u16()),
        );
    }
    let chunks = match pack::chunks(&answer.body) {
        Ok(chunks) => chunks,
        Err(error) => return wrong(Reason::GatewayError, &error),
    };
    let host = answer.url.host_str().unwrap_or_default();
    let mut recorded = Vec::with_capacity(chunks.len());
    for chunk in chunks {
        let item = item(&chunk, host, answer.url.scheme() == "https", ctx.now)?;
        recorded.push((chunk, item));
    }
    Ok(Ok(Fetched { corpus_id: id.to_owned(), chunks: recorded }))
}

/// The headers that authenticate a request by a stored secret, or why they cannot be made.
///
/// # Errors
/// Those of the database.
pub async fn bearer(app: &App, ctx: &Ctx, secret: Option<&Id>) -> Result<Result<HeaderMap, String>> {
    let mut headers = HeaderMap::new();
    let Some(name) = secret else { return Ok(Ok(headers)) };
    let (keys, tenant_ctx, named) = (app.secrets.clone(), ctx.clone(), name.clone());
    let revealed = app
        .db
        .tenant(ctx.tenant, move |tx| secrets::ops::reveal(tx, &tenant_ctx, &keys, named.as_str()))
        .await;
    let value = match revealed {
        Ok(Some(value)) => value,
        Ok(None) => return Ok(Err(format!("there is no secret `{name}`"))),
        Err(error) if error.code == Code::SecretsUnavailable => return Ok(Err(error.detail.into_owned())),
        Err(error) => return Err(error),
    };
    let Ok(mut token) = HeaderValue::from_str(&format!("Bearer {}", value.expose())) else {
        return Ok(Err(format!("the secret `{name}` is no token that a header can hold")));
    };
    token.set_sensitive(true);
    headers.insert(AUTHORIZATION, token);
    Ok(Ok(headers))
}

/// What is recorded of a chunk that came from another host.
fn item(chunk: &Packed, host: &str, secure: bool, now: DateTime<Utc>) -> Result<Item> {
    let received = Received {
        asked: &chunk.id(),
        host,
        secure,
        format: "text",
        size: chunk.text().len() as i64,
        hash: chunk.text_hash(),
        at: now,
        reliability: (
            "Given by the gateway of a registered corpus",
            "; not versioned here, and the SHA-256 is that of the chunk's text.",
        ),
        assumptions: vec!["The gateway chose the chunk; what it is a part of was not read.".into()],
    };
    received.item()
}
