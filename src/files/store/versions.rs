//! The versions' SQL: what they are, and their bytes.

use std::ops::Range;

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Binary, Bool, Integer, Nullable, Text, Timestamptz};
use diesel::{QueryableByName, sql_query};

use crate::db::Tx;
use crate::error::Result;
use crate::files::version::Version;

#[derive(QueryableByName)]
struct VersionRow {
    #[diesel(sql_type = BigInt)]
    file_id: i64,
    #[diesel(sql_type = BigInt)]
    version: i64,
    #[diesel(sql_type = Text)]
    path: String,
    #[diesel(sql_type = BigInt)]
    size: i64,
    #[diesel(sql_type = Text)]
    sha256: String,
    #[diesel(sql_type = Text)]
    media_type: String,
    #[diesel(sql_type = Timestamptz)]
    created_at: DateTime<Utc>,
    #[diesel(sql_type = Nullable<Timestamptz>)]
    source_modified_at: Option<DateTime<Utc>>,
    #[diesel(sql_type = Nullable<Text>)]
    source_version: Option<String>,
    #[diesel(sql_type = Bool)]
    gone: bool,
}

impl From<VersionRow> for Version {
    fn from(row: VersionRow) -> Version {
        Version {
            file_id: row.file_id,
            version: row.version,
            path: row.path,
            size: row.size,
            sha256: row.sha256,
            media_type: row.media_type,
            created_at: row.created_at,
            source_modified_at: row.source_modified_at,
            source_version: row.source_version,
            gone: row.gone,
        }
    }
}

/// `$3` is the horizon: the bytes of what was deleted before it are gone.
const VERSION: &str = "select v.file_id, v.version, v.path, v.size, encode(v.sha256, 'hex') as sha256, v.media_type, \
        v.created_at, v.source_modified_at, v.source_version, \
        (v.purged_at is not null or coalesce(i.deleted_at < $3, false)) as gone \
    from file_versions v join file_ids i on i.tenant_id = $1 and i.id = v.file_id \
    left join files f on f.tenant_id = $1 and f.id = v.file_id \
    join tenant_settings s on s.tenant_id = $1 \
    where v.tenant_id = $1 and v.slate_id = $2 and not (coalesce(f.hidden, i.hidden) or coalesce(v.path ~ s.deny_regex, false))";

/// The version that (slate, path, version) names.
pub fn find(
    tx: &mut Tx,
    slate: i64,
    horizon: DateTime<Utc>,
    path: &str,
    number: i64,
) -> Result<Option<Version>> {
    let row: Option<VersionRow> = sql_query(format!("{VERSION} and v.path = $4 and v.version = $5"))
        .bind::<BigInt, _>(tx.tenant())
        .bind::<BigInt, _>(slate)
        .bind::<Timestamptz, _>(horizon)
        .bind::<Text, _>(path)
        .bind::<BigInt, _>(number)
        .get_result(tx.conn())
        .optional()?;
    Ok(row.map(Version::from))
}

/// The versions of a file before number `before`, newest first, at most `limit`.
pub fn list(
    tx: &mut Tx,
    slate: i64,
    horizon: DateTime<Utc>,
    file: i64,
    before: i64,
    limit: i64,
) -> Result<Vec<Version>> {
    let rows: Vec<VersionRow> = sql_query(format!(
        "{VERSION} and v.file_id = $4 and v.version < $5 order by v.version desc limit $6"
    ))
    .bind::<BigInt, _>(tx.tenant())
    .bind::<BigInt, _>(slate)
    .bind::<Timestamptz, _>(horizon)
    .bind::<BigInt, _>(file)
    .bind::<BigInt, _>(before)
    .bind::<BigInt, _>(limit)
    .load(tx.conn())?;
    Ok(rows.into_iter().map(Version::from).collect())
}

#[derive(QueryableByName)]
struct BytesRow {
    #[diesel(sql_type = Binary)]
    data: Vec<u8>,
}

/// The contents of a version, or a part of them.
pub fn bytes(tx: &mut Tx, file: i64, version: i64, range: Option<Range<u64>>) -> Result<Option<Vec<u8>>> {
    const OF: &str = "from version_contents where tenant_id = $1 and file_id = $2 and version = $3";
    let row: Option<BytesRow> = match range {
        None => sql_query(format!("select data {OF}"))
            .bind::<BigInt, _>(tx.tenant())
            .bind::<BigInt, _>(file)
            .bind::<BigInt, _>(version)
            .get_result(tx.conn()),
        // Positions are within 64 MiB.
        Some(range) => sql_query(format!("select substring(data from $4 for $5) as data {OF}"))
            .bind::<BigInt, _>(tx.tenant())
            .bind::<BigInt, _>(file)
            .bind::<BigInt, _>(version)
            .bind::<Integer, _>(range.start as i32 + 1)
            .bind::<Integer, _>((range.end - range.start) as i32)
            .get_result(tx.conn()),
    }
    .optional()?;
    Ok(row.map(|row| row.data))
}
