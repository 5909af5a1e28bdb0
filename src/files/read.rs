//! Reading one file: its head, its versions, its bytes.

use std::ops::Range;

use chrono::{DateTime, Days, Utc};
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Binary, Bool, Integer, Nullable, Text, Timestamptz};
use diesel::{QueryableByName, sql_query};
use serde::Serialize;
use utoipa::ToSchema;

use super::head::Head;
use super::path::FilePath;
use super::store;
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::{Code, Error, Result};
use crate::slates::{self, Slate};

/// The file at `path` as a reader may find it: never a hidden one; by another spelling of the same characters where there
/// is none of these very bytes (retrieval semantics §2.3).
///
/// # Errors
/// [`Code::NotFound`].
pub fn get(tx: &mut Tx, ctx: &Ctx, slate: &str, path: &FilePath) -> Result<(Slate, Head)> {
    let slate = slates::ops::get(tx, ctx, slate)?;
    let mut head = store::heads(tx, slate.id, &[path.as_str()], false)?.remove(path.as_str());
    if head.is_none() && !path.as_str().is_ascii() {
        head = store::head_by_nfc(tx, slate.id, path.as_str())?;
    }
    let head = head.filter(|head| !head.hidden).ok_or_else(Error::not_found)?;
    Ok((slate, head))
}

/// One version, as (slate, path, version) names it.
#[derive(Debug, Clone, PartialEq, Eq, QueryableByName, Serialize, ToSchema)]
pub struct Version {
    /// The number of the file that had it.
    #[diesel(sql_type = BigInt)]
    #[serde(skip)]
    pub file_id: i64,
    /// Its number.
    #[diesel(sql_type = BigInt)]
    #[schema(example = 3)]
    pub version: i64,
    /// The path that the file had.
    #[diesel(sql_type = Text)]
    #[schema(example = "docs/core.md")]
    pub path: String,
    /// Bytes of the contents.
    #[diesel(sql_type = BigInt)]
    pub size: i64,
    /// SHA-256 of the contents, 64 hexadecimal digits.
    #[diesel(sql_type = Text)]
    pub sha256: String,
    /// Media type of the contents.
    #[diesel(sql_type = Text)]
    pub media_type: String,
    /// When it was written.
    #[diesel(sql_type = Timestamptz)]
    pub created_at: DateTime<Utc>,
    /// When the source of the contents last changed, as the writer said.
    #[diesel(sql_type = Nullable<Timestamptz>)]
    pub source_modified_at: Option<DateTime<Utc>>,
    /// The source's own version, as the writer said.
    #[diesel(sql_type = Nullable<Text>)]
    pub source_version: Option<String>,
    /// Whether the bytes are gone: purged, or past the slate's retention after a deletion.
    #[diesel(sql_type = Bool)]
    pub gone: bool,
}

impl Version {
    /// The strong entity tag of its bytes.
    pub fn etag(&self) -> String {
        format!("\"v{}.{}\"", self.file_id, self.version)
    }
}

const VERSION: &str = "select v.file_id, v.version, v.path, v.size, encode(v.sha256, 'hex') as sha256, v.media_type, \
        v.created_at, v.source_modified_at, v.source_version, \
        (v.purged_at is not null or coalesce(i.deleted_at < $3, false)) as gone \
    from file_versions v join file_ids i on i.tenant_id = $1 and i.id = v.file_id \
    left join files f on f.tenant_id = $1 and f.id = v.file_id \
    join tenant_settings s on s.tenant_id = $1 \
    where v.tenant_id = $1 and v.slate_id = $2 and not coalesce(f.hidden, coalesce(v.path ~ s.deny_regex, false))";

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
    let found: Version = sql_query(format!("{VERSION} and v.path = $4 and v.version = $5"))
        .bind::<BigInt, _>(tx.tenant())
        .bind::<BigInt, _>(slate.id)
        .bind::<Timestamptz, _>(horizon(ctx, &slate))
        .bind::<Text, _>(path.as_str())
        .bind::<BigInt, _>(number)
        .get_result(tx.conn())
        .optional()?
        .ok_or_else(Error::not_found)?;
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
    let rows = sql_query(format!(
        "{VERSION} and v.file_id = $4 and v.version < $5 order by v.version desc limit $6"
    ))
    .bind::<BigInt, _>(tx.tenant())
    .bind::<BigInt, _>(slate.id)
    .bind::<Timestamptz, _>(horizon(ctx, &slate))
    .bind::<BigInt, _>(head.id)
    .bind::<BigInt, _>(before.unwrap_or(i64::MAX))
    .bind::<BigInt, _>(limit)
    .load(tx.conn())?;
    Ok(rows)
}

#[derive(QueryableByName)]
struct BytesRow {
    #[diesel(sql_type = Binary)]
    data: Vec<u8>,
}

/// The contents that have this SHA-256 (64 hexadecimal digits), or the part of them that `range` names.
///
/// # Errors
/// [`Code::Gone`] when nothing keeps them any more.
pub fn bytes(tx: &mut Tx, sha256: &str, range: Option<Range<u64>>) -> Result<Vec<u8>> {
    let row: Option<BytesRow> = match range {
        None => sql_query("select data from blobs where tenant_id = $1 and sha256 = decode($2, 'hex')")
            .bind::<BigInt, _>(tx.tenant())
            .bind::<Text, _>(sha256)
            .get_result(tx.conn()),
        // Positions are within 64 MiB.
        Some(range) => sql_query(
            "select substring(data from $3 for $4) as data from blobs where tenant_id = $1 and sha256 = decode($2, 'hex')",
        )
        .bind::<BigInt, _>(tx.tenant())
        .bind::<Text, _>(sha256)
        .bind::<Integer, _>(range.start as i32 + 1)
        .bind::<Integer, _>((range.end - range.start) as i32)
        .get_result(tx.conn()),
    }
    .optional()?;
    Ok(row.ok_or_else(|| Error::new(Code::Gone, "the bytes of this version are no longer kept"))?.data)
}
