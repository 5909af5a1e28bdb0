//! What is done with secrets.

use super::keys::{KeyError, Keys};
use super::name::{Listed, SecretName, SecretValue};
use super::store;
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::{Code, Error, Result};

/// The secrets after `after`, by name, at most `limit`: names and times alone.
///
/// # Errors
/// Those of the database.
pub fn list(tx: &mut Tx, after: Option<&str>, limit: i64) -> Result<Vec<Listed>> {
    store::list(tx, after, limit)
}

/// Stores a secret, or replaces it; tells whether it was new.
///
/// # Errors
/// [`Code::SecretsUnavailable`] where the service has no master key.
pub fn put(
    tx: &mut Tx,
    ctx: &Ctx,
    keys: &Keys,
    name: &SecretName,
    value: &SecretValue,
) -> Result<(Listed, bool)> {
    let sealed =
        keys.seal(ctx.tenant, name, value, rand::random()).map_err(|error| unavailable(name, error))?;
    let made = store::lock(tx, name)?;
    match made {
        Some(_) => store::update(tx, name, &sealed, Some(ctx.now))?,
        None => store::insert(tx, name, &sealed, ctx.now)?,
    }
    let created_at = made.unwrap_or(ctx.now);
    Ok((Listed { name: name.as_str().to_owned(), created_at, updated_at: ctx.now }, made.is_none()))
}

/// Deletes a secret. What names it fails from then on.
///
/// # Errors
/// [`Code::NotFound`].
pub fn delete(tx: &mut Tx, name: &str) -> Result<()> {
    let name = SecretName::parse(name).map_err(|_| Error::not_found())?;
    if store::delete(tx, &name)? { Ok(()) } else { Err(Error::not_found()) }
}

/// The secret itself, for a request to another host that needs it. `None`: the tenant has none of this name.
///
/// # Errors
/// [`Code::SecretsUnavailable`] where it cannot be decrypted.
pub fn reveal(tx: &mut Tx, ctx: &Ctx, keys: &Keys, name: &str) -> Result<Option<SecretValue>> {
    let Ok(name) = SecretName::parse(name) else { return Ok(None) };
    let Some(sealed) = store::find(tx, &name)? else { return Ok(None) };
    keys.open(ctx.tenant, &name, &sealed).map(Some).map_err(|error| unavailable(&name, error))
}

fn unavailable(name: &SecretName, error: KeyError) -> Error {
    Error::new(Code::SecretsUnavailable, format!("the secret {}: {error}", name.as_str()))
}

/// What one step of a rotation did.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Rotated {
    /// How many secrets were encrypted anew.
    pub renewed: usize,
    /// Those that could not be opened, and why.
    pub failed: Vec<(String, KeyError)>,
    /// The last name that was looked at; `None` when there is no further one.
    pub last: Option<String>,
}

/// Encrypts at most `limit` secrets of the tenant, those after `after` by name, under the first key, unless they are
/// already. What was interrupted goes on where it stopped.
///
/// # Errors
/// [`Code::SecretsUnavailable`] where there is no key; those of the database.
pub fn rotate(tx: &mut Tx, ctx: &Ctx, keys: &Keys, after: &str, limit: i64) -> Result<Rotated> {
    let first =
        keys.first().ok_or_else(|| Error::new(Code::SecretsUnavailable, KeyError::None.to_string()))?;
    let mut done = Rotated::default();
    for (text, sealed) in store::not_under(tx, first, after, limit)? {
        let name = SecretName::parse(&text).map_err(|error| Error::internal(anyhow::anyhow!(error)))?;
        let opened = keys.open(ctx.tenant, &name, &sealed);
        match opened.and_then(|value| keys.seal(ctx.tenant, &name, &value, rand::random())) {
            Ok(sealed) => {
                store::update(tx, &name, &sealed, None)?;
                done.renewed += 1;
            }
            Err(error) => done.failed.push((text.clone(), error)),
        }
        done.last = Some(text);
    }
    Ok(done)
}
