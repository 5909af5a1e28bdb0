//! Retrieving, from the call to its record. A source is asked between transactions: none is held while another host is
//! waited for.

use serde_json::Value;

use super::answer;
use super::citations::{Check, CheckStatus, Resolution, ResolveStatus, Slice, ToCheck, ToResolve};
use super::ops::{self, Recording};
use super::outcome::{Reason, Retrieval};
use super::quote::MAX_QUOTE;
use super::request::{Asked, MAX_CITATION, Request};
use super::sources;
use crate::app::App;
use crate::ctx::Ctx;
use crate::error::{Code, Error, Result};
use crate::provenance::citation::Citation;
use crate::provenance::contract::Contract;
use crate::provenance::record::Kind;

/// Retrieves one thing of one source. That nothing was got is an answer as well; both are on record when it is given.
/// `sent` is the call as it was made.
///
/// # Errors
/// [`Code::Invalid`] by pointer for a malformed call; those of the database.
pub async fn retrieve(app: &App, ctx: &Ctx, asked: Asked, sent: Value) -> Result<Retrieval> {
    let request = Request::parse(asked)?;
    retrieve_as(app, ctx, request, Kind::Retrieve, sent).await
}

async fn retrieve_as(app: &App, ctx: &Ctx, request: Request, kind: Kind, sent: Value) -> Result<Retrieval> {
    let outcome = sources::fetch(app, ctx, &request).await?;
    let (file, slate, now) = (outcome.file, outcome.slate, ctx.now);
    // Megabytes of YAML take a while to read.
    let made = tokio::task::spawn_blocking(move || match outcome.result {
        Ok(fetched) => answer::answer(&request, fetched, now),
        Err(missed) => answer::failure(&request, *missed),
    });
    let mut contract = Some(made.await.map_err(Error::internal)?);
    let asking = ctx.clone();
    let recorded = app.db.tenant(ctx.tenant, move |tx| {
        let of = Recording { kind, sent: &sent, slate: slate.as_deref(), file: file.clone() };
        let mut given = contract.take().ok_or_else(lost)?;
        match ops::record(tx, &asking, of, &mut given) {
            Ok(provenance_id) => Ok(Retrieval { provenance_id, contract: given }),
            Err(error) => {
                contract = Some(given);
                Err(error)
            }
        }
    });
    recorded.await
}

fn lost() -> Error {
    Error::new(Code::Conflict, "the record could not be written; try again")
}

/// Fetches what a citation cites again, and says whether it is what was cited.
///
/// # Errors
/// [`Code::Invalid`] for what is no citation; [`Code::NotFound`] for a version that never was.
pub async fn resolve(app: &App, ctx: &Ctx, mut asked: ToResolve) -> Result<Resolution> {
    let sent = serde_json::to_value(&asked).map_err(Error::internal)?;
    if asked.hash.as_ref().is_some_and(|hash| !is_hash(hash)) {
        return Err(Error::invalid_at("/hash", "must be `sha256:` and 64 hexadecimal digits"));
    }
    // Digits of either case are the same hash.
    asked.hash.iter_mut().for_each(|hash| hash.make_ascii_lowercase());
    if asked.reference.starts_with("slate:") {
        let citation = citation(&asked.reference)?;
        let asking = ctx.clone();
        return app
            .db
            .tenant(ctx.tenant, move |tx| ops::resolve_file(tx, &asking, &citation, &asked, &sent))
            .await;
    }
    let hash = asked.hash.clone().ok_or_else(|| {
        Error::invalid_at("/hash", "is needed: a source that is not a slate has no versions to tell by")
    })?;
    let request = remote(&asked.reference)?;
    let Retrieval { provenance_id, contract } = retrieve_as(app, ctx, request, Kind::Citation, sent).await?;
    let Contract { retrieved, citation, failure, .. } = contract;
    let (status, detail) = match (&failure, &citation.hash) {
        (Some(failure), _) if failure.reason == Reason::NotFound.as_str() => {
            (ResolveStatus::Gone, Some(failure.detail.clone()))
        }
        (Some(failure), _) => (ResolveStatus::Gone, Some(format!("{}: {}", failure.reason, failure.detail))),
        (None, Some(now)) if *now == hash => (ResolveStatus::Verified, None),
        (None, Some(_)) => (ResolveStatus::Changed, Some("the source has other bytes now".into())),
        (None, None) => (ResolveStatus::IntegrityMismatch, Some("not all bytes could be read".into())),
    };
    let given = matches!(status, ResolveStatus::Verified | ResolveStatus::Changed);
    let encoding = (retrieved.format.as_deref() == Some("binary")).then_some("base64");
    Ok(Resolution {
        status,
        reference: asked.reference,
        data: retrieved.data.as_str().filter(|_| given).map(str::to_owned),
        encoding: encoding.filter(|_| given),
        hash: citation.hash,
        version: citation.version,
        detail,
        provenance_id,
    })
}

fn is_hash(text: &str) -> bool {
    text.strip_prefix("sha256:")
        .is_some_and(|digits| digits.len() == 64 && digits.bytes().all(|b| b.is_ascii_hexdigit()))
}

fn citation(reference: &str) -> Result<Citation> {
    if reference.len() > MAX_CITATION {
        return Err(Error::invalid_at(
            "/reference",
            format!("must be a text of at most {MAX_CITATION} bytes"),
        ));
    }
    Citation::parse(reference).map_err(|error| Error::invalid_at("/reference", error.to_string()))
}

/// A reference of another source than a slate, as text whatever its format.
fn remote(reference: &str) -> Result<Request> {
    let asked = Asked { target: reference.into(), source: None, format: None, constraints: None };
    let mut request = Request::parse(asked).map_err(|error| Error {
        errors: error
            .errors
            .into_iter()
            .map(|e| crate::error::FieldError { pointer: "/reference".into(), ..e })
            .collect(),
        ..error
    })?;
    request.exact = true;
    Ok(request)
}

/// Whether a quote stands in what a citation cites.
///
/// # Errors
/// As [`resolve`].
pub async fn check(app: &App, ctx: &Ctx, asked: ToCheck) -> Result<Check> {
    if asked.quote.len() > MAX_QUOTE || asked.quote.contains('\0') {
        let detail = format!("must be a text of at most {MAX_QUOTE} bytes without U+0000");
        return Err(Error::invalid_at("/quote", detail));
    }
    if asked.reference.starts_with("slate:") {
        let citation = citation(&asked.reference)?;
        let asking = ctx.clone();
        let ToCheck { quote, session_id, .. } = asked;
        return app
            .db
            .tenant(ctx.tenant, move |tx| ops::check_file(tx, &asking, &citation, &quote, session_id))
            .await;
    }
    let request = remote(&asked.reference)?;
    let sent = serde_json::json!({"reference": asked.reference, "quote": asked.quote});
    let Retrieval { contract, .. } = retrieve_as(app, ctx, request, Kind::Citation, sent).await?;
    if let Some(failure) = contract.failure {
        return Ok(Check::not_found(Some(format!("{}: {}", failure.reason, failure.detail))));
    }
    let text =
        contract.retrieved.data.as_str().filter(|_| contract.retrieved.format.as_deref() != Some("binary"));
    let found = text.and_then(|text| Slice::of(text, &[])?.find(&asked.quote));
    Ok(match found {
        None => Check::not_found(text.is_none().then(|| "what is cited is no text".into())),
        Some(lines) => Check {
            status: CheckStatus::Found,
            lines: Some(lines.to_string()),
            reference: Some(asked.reference),
            detail: None,
        },
    })
}
