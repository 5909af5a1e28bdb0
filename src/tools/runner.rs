//! Calling a tool within a session: no transaction is held while it answers.

use std::time::Duration;

use reqwest::Method as HttpMethod;
use serde_json::Value;
use uuid::Uuid;

use super::call::{Called, NewCall};
use super::capability::Method;
use super::ops::{self, Begun, Ready};
use crate::app::App;
use crate::corpora::runner::bearer;
use crate::ctx::Ctx;
use crate::error::{Code, Error, Result};
use crate::outbound::{Call, Cut};

/// How long a tool may take. It is not asked again: it may not be as harmless as it should be.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The most bytes of an answer, before it is projected.
const MAX_ANSWER: usize = 4 << 20;

/// Calls a capability in a session, and stores its answer in the session's slot. What a model asked for and what a caller
/// asks for are called alike.
///
/// # Errors
/// As [`ops::begin`] and [`ops::finish`]; [`Code::ToolFailed`] for a tool that gives no answer.
pub async fn call(app: &App, ctx: &Ctx, session: Uuid, capability: &str, new: NewCall) -> Result<Called> {
    let (begun_ctx, id) = (ctx.clone(), capability.to_owned());
    let begun = app.db.tenant(ctx.tenant, move |tx| ops::begin(tx, &begun_ctx, session, &id, &new)).await?;
    let ready = match begun {
        Begun::Done(called) => return Ok(called),
        Begun::Send(ready) => ready,
    };
    let answer = send(app, ctx, &ready, None).await?;
    let ctx = ctx.clone();
    app.db.tenant(ctx.tenant, move |tx| ops::finish(tx, &ctx, session, &ready, answer.clone())).await
}

/// Makes a call that is ready, and reads the answer. `key` goes along as the `Idempotency-Key`.
///
/// # Errors
/// [`Code::ToolFailed`] for a tool that gives no answer.
pub async fn send(app: &App, ctx: &Ctx, ready: &Ready, key: Option<&str>) -> Result<Value> {
    let failed = |why: String| Error::new(Code::ToolFailed, why);
    let mut call = match ready.method {
        Method::Get => {
            let mut url = ready.url.clone();
            for (name, value) in &ready.payload {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                url.query_pairs_mut().append_pair(name, &text);
            }
            Call::get(url, TIMEOUT, MAX_ANSWER)
        }
        method => {
            let body = serde_json::to_vec(&ready.payload).map_err(Error::internal)?;
            let call = Call::post(ready.url.clone(), body, TIMEOUT, MAX_ANSWER);
            Call { method: if method == Method::Put { HttpMethod::PUT } else { HttpMethod::POST }, ..call }
        }
    };
    call.headers = bearer(app, ctx, ready.secret.as_ref()).await?.map_err(failed)?;
    if let Some(key) = key {
        call.headers.insert("idempotency-key", key.parse().map_err(Error::internal)?);
    }
    let answer = app.outbound.send(&call).await.map_err(|failure| failed(failure.to_string()))?;
    match answer.cut {
        Some(Cut::Ended) => return Err(failed("the answer ended early".into())),
        Some(Cut::TooLarge) => return Err(failed(format!("the answer has more than {MAX_ANSWER} bytes"))),
        None => {}
    }
    if !answer.status.is_success() {
        return Err(failed(format!("the tool answered with status {}", answer.status.as_u16())));
    }
    serde_json::from_slice(&answer.body).map_err(|_| failed("the answer is no JSON".into()))
}
