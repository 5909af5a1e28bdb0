//! The archives' SQL: what an export reads, page by page.

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Binary, Bool, Jsonb, Nullable, Text, Timestamptz};
use diesel::{QueryableByName, sql_query};
use serde_json::Value;

use crate::db::Tx;
use crate::error::Result;

#[derive(QueryableByName)]
pub(super) struct FileRow {
    #[diesel(sql_type = BigInt)]
    pub file_id: i64,
    #[diesel(sql_type = BigInt)]
    pub version: i64,
    #[diesel(sql_type = Text)]
    pub path: String,
    #[diesel(sql_type = BigInt)]
    pub size: i64,
    #[diesel(sql_type = Text)]
    pub media_type: String,
    #[diesel(sql_type = Nullable<Text>)]
    pub authority: Option<String>,
    #[diesel(sql_type = Bool)]
    pub sensitive: bool,
    #[diesel(sql_type = Timestamptz)]
    pub updated_at: DateTime<Utc>,
    #[diesel(sql_type = Nullable<Timestamptz>)]
    pub source_modified_at: Option<DateTime<Utc>>,
    #[diesel(sql_type = Nullable<Text>)]
    pub source_version: Option<String>,
    #[diesel(sql_type = Jsonb)]
    pub tags: Value,
    /// The contents, unless they are large.
    #[diesel(sql_type = Nullable<Binary>)]
    pub data: Option<Vec<u8>>,
}

/// Which part of a slate.
pub(super) struct Part<'a> {
    pub slate: i64,
    /// The paths from here on, and before there: those below a folder.
    pub from: &'a str,
    pub before: Option<&'a str>,
    /// Hidden ones too.
    pub hidden: bool,
}

/// The files after `after` by path, at most `limit`, and at most `bytes` of contents; contents of more than `large` bytes
/// are left out. At least one, if there is one.
pub(super) fn files(
    tx: &mut Tx,
    part: &Part,
    after: &str,
    limit: i64,
    bytes: i64,
    large: i64,
) -> Result<Vec<FileRow>> {
    let rows = sql_query(
        "with page as materialized ( \
             select * from files f where f.tenant_id = $1 and f.slate_id = $2 and f.path >= $3 \
                and ($4 is null or f.path < $4) and f.path > $5 and ($6 or not f.hidden) order by f.path limit $7), \
         part as (select *, sum(case when size <= $9 then size else 0 end) over (order by path) as total from page) \
         select p.id as file_id, p.version, p.path, p.size, p.media_type, p.authority, p.sensitive, p.updated_at, \
                v.source_modified_at, v.source_version, t.tags, coalesce(p.data, b.data) as data \
         from part p \
         join file_tags t on t.tenant_id = $1 and t.folder_id = p.folder_id and t.name = p.name \
         join file_versions v on v.tenant_id = $1 and v.file_id = p.id and v.version = p.version \
         left join blobs b on b.tenant_id = $1 and b.sha256 = p.sha256 and p.size <= $9 and p.data is null \
         where p.total <= $8 order by p.path",
    )
    .bind::<BigInt, _>(tx.tenant())
    .bind::<BigInt, _>(part.slate)
    .bind::<Text, _>(part.from)
    .bind::<Nullable<Text>, _>(part.before)
    .bind::<Text, _>(after)
    .bind::<Bool, _>(part.hidden)
    .bind::<BigInt, _>(limit)
    .bind::<BigInt, _>(bytes)
    .bind::<BigInt, _>(large)
    .load(tx.conn())?;
    Ok(rows)
}

#[derive(QueryableByName)]
pub(super) struct FolderRow {
    #[diesel(sql_type = Text)]
    pub path: String,
    #[diesel(sql_type = Nullable<Text>)]
    pub authority: Option<String>,
    #[diesel(sql_type = Bool)]
    pub sensitive: bool,
}

/// The folders after `after` by path, at most `limit`.
pub(super) fn folders(tx: &mut Tx, part: &Part, after: &str, limit: i64) -> Result<Vec<FolderRow>> {
    let rows = sql_query(
        "select path, authority, sensitive from folders where tenant_id = $1 and slate_id = $2 and path >= $3 \
            and ($4 is null or path < $4) and path > $5 and ($6 or not hidden) order by path limit $7",
    )
    .bind::<BigInt, _>(tx.tenant())
    .bind::<BigInt, _>(part.slate)
    .bind::<Text, _>(part.from)
    .bind::<Nullable<Text>, _>(part.before)
    .bind::<Text, _>(after)
    .bind::<Bool, _>(part.hidden)
    .bind::<BigInt, _>(limit)
    .load(tx.conn())?;
    Ok(rows)
}

/// The folder at this very path.
pub(super) fn folder(tx: &mut Tx, slate: i64, path: &str, hidden: bool) -> Result<Option<FolderRow>> {
    let row = sql_query(
        "select path, authority, sensitive from folders \
         where tenant_id = $1 and slate_id = $2 and path = $3 and ($4 or not hidden)",
    )
    .bind::<BigInt, _>(tx.tenant())
    .bind::<BigInt, _>(slate)
    .bind::<Text, _>(path)
    .bind::<Bool, _>(hidden)
    .get_result(tx.conn())
    .optional()?;
    Ok(row)
}

#[derive(QueryableByName)]
struct CountRow {
    #[diesel(sql_type = BigInt)]
    count: i64,
}

/// How many files are hidden.
pub(super) fn hidden_files(tx: &mut Tx, part: &Part) -> Result<i64> {
    let row: CountRow = sql_query(
        "select count(*) as count from files where tenant_id = $1 and slate_id = $2 and path >= $3 \
            and ($4 is null or path < $4) and hidden",
    )
    .bind::<BigInt, _>(tx.tenant())
    .bind::<BigInt, _>(part.slate)
    .bind::<Text, _>(part.from)
    .bind::<Nullable<Text>, _>(part.before)
    .get_result(tx.conn())?;
    Ok(row.count)
}
