//! Reading one file: its head, its versions, its bytes.

use std::ops::Range;

use chrono::{DateTime, Days, Utc};

use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::{Code, Error, Result};
use crate::files::head::Head;
use crate::files::store::{self, versions};
use crate::files::version::Version;
use crate::path::{FilePath, has_spellings};
use crate::slates::{self, Slate};

/// The file at `path` as a reader may find it: never a hidden one; by another spelling of the same characters where there
/// is none of these very bytes (retrieval semantics §2.3).
///
/// # Errors
/// [`Code::NotFound`].
pub fn get(tx: &mut Tx, ctx: &Ctx, slate: &str, path: &FilePath) -> Result<(Slate, Head)> {
    let slate = slates::ops::get(tx, ctx, slate)?;
    let mut head = store::heads(tx, slate.id, &[path.as_str()], false)?.remove(path.as_str());
    if head.is_none() && has_spellings(path.as_str()) {
        head = store::head_by_nfc(tx, slate.id, path.as_str())?;
    }
    let head = head.filter(|head| !head.hidden).ok_or_else(Error::not_found)?;
    Ok((slate, head))
}

/// The same file, with its contents where these are `most` bytes at most.
///
/// # Errors
/// As [`get`].
pub fn open(
    tx: &mut Tx,
    ctx: &Ctx,
    slate: &str,
    path: &FilePath,
    most: i64,
) -> Result<(Head, Option<Vec<u8>>)> {
    ctx.slate(slate)?;
    // No stored name holds a NUL, and a Postgres text cannot.
    let found = if slate.contains('\0') { None } else { store::open(tx, slate, path.as_str(), most)? };
    match found {
        Some((head, contents)) if !head.hidden => Ok((head, contents)),
        Some(_) => Err(Error::not_found()),
        None => Ok((get(tx, ctx, slate, path)?.1, None)),
    }
}

/// What was deleted before this has outlived the slate's retention.
fn horizon(ctx: &Ctx, slate: &Slate) -> DateTime<Utc> {
    let days = Days::new(u64::try_from(slate.retention_days).unwrap_or_default());
    ctx.now.checked_sub_days(days).unwrap_or(DateTime::<Utc>::MIN_UTC)
}

/// The version that (slate, path, version) names, whatever became of its file. It never falls through to another.
///
/// # Errors
/// [`Code::NotFound`]; [`Code::Gone`] when its bytes are no longer kept.
pub fn version(tx: &mut Tx, ctx: &Ctx, slate: &str, path: &FilePath, number: i64) -> Result<Version> {
    let slate = slates::ops::get(tx, ctx, slate)?;
    let horizon = horizon(ctx, &slate);
    let found = versions::find(tx, slate.id, horizon, path.as_str(), number)?.ok_or_else(Error::not_found)?;
    if found.gone {
        return Err(Error::new(
            Code::Gone,
            "the bytes of this version are no longer kept; its hash and records are",
        ));
    }
    Ok(found)
}

/// The history of the file at `path`, newest first, at its former paths too; those before version `before`, at most
/// `limit`.
///
/// # Errors
/// [`Code::NotFound`].
pub fn versions(
    tx: &mut Tx,
    ctx: &Ctx,
    slate: &str,
    path: &FilePath,
    before: Option<i64>,
    limit: i64,
) -> Result<Vec<Version>> {
    let (slate, head) = get(tx, ctx, slate, path)?;
    versions::list(tx, slate.id, horizon(ctx, &slate), head.id, before.unwrap_or(i64::MAX), limit)
}

/// The contents of a version, or the part of them that `range` names.
///
/// # Errors
/// [`Code::Gone`] when nothing keeps them any more.
pub fn bytes(tx: &mut Tx, file: i64, version: i64, range: Option<Range<u64>>) -> Result<Vec<u8>> {
    versions::bytes(tx, file, version, range)?
        .ok_or_else(|| Error::new(Code::Gone, "the bytes of this version are no longer kept"))
}
