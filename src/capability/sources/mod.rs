//! Where things are read from. A source is one file here and one arm of [`fetch`].

use crate::app::App;
use crate::authority::Authority;
use crate::capability::outcome::{Missed, Origin, Outcome, Reason};
use crate::capability::request::Request;
use crate::capability::target::{Locator, SourceType};
use crate::corpora::entry::Id;
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::{Code, Result};
use crate::secrets;
use crate::secrets::keys::Keys;
use crate::secrets::name::SecretValue;

mod api;
mod database;
mod slate;
mod web;

/// Something to read from. Reading changes nothing there.
trait Source {
    /// Reads what the target names. `Err` is for a call that cannot be answered; that nothing was got is an outcome.
    fn fetch(&self, app: &App, ctx: &Ctx, request: &Request) -> impl Future<Output = Result<Outcome>> + Send;
}

/// Reads what the request's target names, from whatever source.
///
/// # Errors
/// [`Code::Invalid`] for a target that is malformed for its source; those of the database.
pub async fn fetch(app: &App, ctx: &Ctx, request: &Request) -> Result<Outcome> {
    match &request.locator {
        Locator::File(target) => slate::Slate(target).fetch(app, ctx, request).await,
        Locator::Web(url) => web::Web(url).fetch(app, ctx, request).await,
        Locator::Api { api, path, query } => api::Api { api, path, query }.fetch(app, ctx, request).await,
        Locator::Database { database, rows } => {
            database::Database { database, rows }.fetch(app, ctx, request).await
        }
    }
}

/// The secret that a source authenticates with; the inner error is a sentence for whoever asked.
fn revealed(tx: &mut Tx, ctx: &Ctx, keys: &Keys, name: &Id) -> Result<Result<SecretValue, String>> {
    match secrets::ops::reveal(tx, ctx, keys, name.as_str()) {
        Ok(Some(secret)) => Ok(Ok(secret)),
        Ok(None) => Ok(Err(format!("the source authenticates with the secret {name}, which is not stored"))),
        Err(error) if error.code == Code::SecretsUnavailable => Ok(Err(error.detail.into_owned())),
        Err(error) => Err(error),
    }
}

/// There is no such API or database.
fn unregistered(kind: SourceType, name: &str, ctx: &Ctx) -> Outcome {
    let source = format!("{}:{name}", kind.as_str());
    let origin =
        Origin { kind, anchor: source.clone(), source, reference: None, authority: Authority::default() };
    Err(Missed::new(origin, Reason::NotFound, "nothing is registered under this name", ctx.now)).into()
}
