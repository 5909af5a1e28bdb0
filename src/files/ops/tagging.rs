//! Reading and setting the metatags of one file.

use super::{find_to_write, read};
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::{Error, Result};
use crate::files::head::Head;
use crate::files::store;
use crate::metatags::{self, Tags, terms};
use crate::path::FilePath;

/// A file's metatags, and the file.
///
/// # Errors
/// [`Code::NotFound`](crate::error::Code::NotFound), for a hidden file too.
pub fn get(tx: &mut Tx, ctx: &Ctx, slate: &str, path: &FilePath) -> Result<(Head, Tags)> {
    let (slate, head) = read::get(tx, ctx, slate, path)?;
    let tags = store::tags::tags(tx, slate.id, &head.path)?.unwrap_or_default();
    Ok((head, tags))
}

/// Sets a file's metatags to what `decide` makes of those it has.
///
/// # Errors
/// [`Code::NotFound`](crate::error::Code::NotFound); what `decide` says; [`Code::Invalid`](crate::error::Code::Invalid)
/// for a type that the slate does not allow.
pub fn set(
    tx: &mut Tx,
    ctx: &Ctx,
    slate: &str,
    path: &FilePath,
    decide: impl FnOnce(&Head, &Tags) -> Result<Tags>,
) -> Result<(Head, Tags)> {
    let (slate, head) = find_to_write(tx, ctx, slate, path)?;
    let head = head.ok_or_else(Error::not_found)?;
    let before = store::tags::tags(tx, slate.id, &head.path)?.unwrap_or_default();
    let tags = decide(&head, &before)?;
    let wrong = tags.check_types(&slate.metatag_types, "");
    if !wrong.is_empty() {
        return Err(Error::invalid(wrong));
    }
    let found = terms::terms(&tags);
    metatags::ops::hold_writers(tx)?;
    let numbers = metatags::ops::intern(tx, &found)?;
    store::tags::set_tags(tx, &head, &tags, &terms::sorted(&found, &numbers))?;
    let (_, head) = find_to_write(tx, ctx, &slate.name, path)?;
    Ok((head.ok_or_else(Error::not_found)?, tags))
}
