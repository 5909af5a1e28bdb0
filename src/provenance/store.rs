//! The SQL of records.

use std::io::Write;

use chrono::{DateTime, Utc};
use diesel::expression::AsExpression;
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::serialize::{self, IsNull, Output, ToSql};
use diesel::sql_types::{
    Array, BigInt, Binary, Bool, Integer, Json, Nullable, SmallInt, Text, Timestamptz, Uuid as SqlUuid,
};
use diesel::{QueryableByName, sql_query};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::contract::Held;
use super::record::{FileVersion, Item, Record, Recorded};
use crate::db::Tx;
use crate::db::kept::Kept;
use crate::db::schema::provenance;
use crate::error::{Error, Result};

/// A row of `provenance`.
#[derive(Insertable)]
#[diesel(table_name = provenance)]
struct NewRow<'a> {
    tenant_id: i64,
    id: Uuid,
    kind: &'a str,
    key_id: Option<i64>,
    session_id: Option<Uuid>,
    round: Option<i32>,
    position: i64,
    previous: Option<&'a [u8]>,
    hash: &'a [u8],
    created_at: DateTime<Utc>,
    slate: Option<&'a str>,
    folder: Option<&'a str>,
    recursive: bool,
    request: Option<Exact>,
    file_ids: Vec<i64>,
    versions: Vec<i64>,
    statuses: Vec<i16>,
    matched_by: Vec<i16>,
    authorities: Vec<i16>,
    freshness: Vec<i16>,
    asked: Exact,
    details: Option<Exact>,
}

/// JSON that is stored as the text that it is: it is hashed as it is.
#[derive(Debug, AsExpression)]
#[diesel(sql_type = Json)]
struct Exact(String);

impl ToSql<Json, Pg> for Exact {
    fn to_sql<'b>(&'b self, out: &mut Output<'b, '_, Pg>) -> serialize::Result {
        out.write_all(self.0.as_bytes())?;
        Ok(IsNull::No)
    }
}

/// Appends records with their hashes.
pub(super) fn insert(tx: &mut Tx, records: &[Recorded]) -> Result<()> {
    match records {
        // One alone is sent as a statement that is kept.
        [record] => {
            Kept(diesel::insert_into(provenance::table).values(new_row(record)?)).execute(tx.conn())?
        }
        records => {
            let rows: Result<Vec<NewRow>> = records.iter().map(new_row).collect();
            diesel::insert_into(provenance::table).values(rows?).execute(tx.conn())?
        }
    };
    Ok(())
}

fn new_row(Recorded { record, hash }: &Recorded) -> Result<NewRow<'_>> {
    let column = |value: fn(&Item) -> i16| record.items.iter().map(value).collect::<Vec<i16>>();
    let number = |value: fn(&FileVersion) -> i64| {
        record.items.iter().map(|item| item.file.as_ref().map_or(0, value)).collect::<Vec<i64>>()
    };
    let texts = |text: fn(&Item) -> Option<&String>| {
        let texts = record.items.iter().enumerate();
        let texts: Map<String, Value> =
            texts.filter_map(|(i, item)| Some(((i + 1).to_string(), text(item)?.clone().into()))).collect();
        serde_json::to_string(&texts).map(Exact).map_err(Error::internal)
    };
    let detailed = record.items.iter().any(|item| item.detail.is_some());
    Ok(NewRow {
        tenant_id: record.tenant,
        id: record.id,
        kind: &record.kind,
        key_id: record.key_id,
        session_id: record.session_id,
        round: record.round,
        position: record.position,
        previous: record.previous.as_deref(),
        hash,
        created_at: record.created_at,
        slate: record.slate.as_deref(),
        folder: record.folder.as_deref(),
        recursive: record.recursive,
        request: record.request.clone().map(Exact),
        file_ids: number(|file| file.file_id),
        versions: number(|file| file.version),
        statuses: column(|item| item.status),
        matched_by: column(|item| item.matched_by),
        authorities: column(|item| item.authority),
        freshness: column(|item| item.freshness),
        asked: texts(|item| item.asked.as_ref())?,
        details: detailed.then(|| texts(|item| item.detail.as_ref())).transpose()?,
    })
}

#[derive(QueryableByName)]
struct RecordRow {
    #[diesel(sql_type = SqlUuid)]
    id: Uuid,
    #[diesel(sql_type = Text)]
    kind: String,
    #[diesel(sql_type = Nullable<BigInt>)]
    key_id: Option<i64>,
    #[diesel(sql_type = Nullable<SqlUuid>)]
    session_id: Option<Uuid>,
    #[diesel(sql_type = Nullable<Integer>)]
    round: Option<i32>,
    #[diesel(sql_type = BigInt)]
    position: i64,
    #[diesel(sql_type = Nullable<Binary>)]
    previous: Option<Vec<u8>>,
    #[diesel(sql_type = Binary)]
    hash: Vec<u8>,
    #[diesel(sql_type = Timestamptz)]
    created_at: DateTime<Utc>,
    #[diesel(sql_type = Nullable<Text>)]
    slate: Option<String>,
    #[diesel(sql_type = Nullable<Text>)]
    folder: Option<String>,
    #[diesel(sql_type = Bool)]
    recursive: bool,
    #[diesel(sql_type = Nullable<Text>)]
    request: Option<String>,
    #[diesel(sql_type = Text)]
    asked: String,
    #[diesel(sql_type = Nullable<Text>)]
    details: Option<String>,
    #[diesel(sql_type = BigInt)]
    count: i64,
}

/// A record without its items, and what else its row holds.
pub(super) struct Stored {
    /// The record; its items are read apart.
    pub record: Record,
    /// Its hash, as stored.
    pub hash: Vec<u8>,
    /// The number of its items.
    pub count: i64,
    /// What was asked for and the details, by the number of the item.
    asked: Map<String, Value>,
    details: Map<String, Value>,
}

const RECORD: &str = "select id, kind, key_id, session_id, round, position, previous, hash, created_at, slate, folder, recursive, \
        request::text as request, asked::text as asked, \
        details::text as details, cardinality(statuses)::bigint as count \
    from provenance where tenant_id = $1";

fn stored(tenant: i64, row: RecordRow) -> Result<Stored> {
    Ok(Stored {
        record: Record {
            tenant,
            id: row.id,
            kind: row.kind,
            key_id: row.key_id,
            session_id: row.session_id,
            round: row.round,
            position: row.position,
            previous: row.previous,
            created_at: row.created_at,
            slate: row.slate,
            folder: row.folder,
            recursive: row.recursive,
            request: row.request,
            items: Vec::new(),
        },
        hash: row.hash,
        count: row.count,
        asked: serde_json::from_str(&row.asked).map_err(Error::internal)?,
        details: serde_json::from_str(row.details.as_deref().unwrap_or("{}")).map_err(Error::internal)?,
    })
}

/// The record of this id.
pub(super) fn find(tx: &mut Tx, id: Uuid) -> Result<Option<Stored>> {
    let tenant = tx.tenant();
    let row: Option<RecordRow> = sql_query(format!("{RECORD} and id = $2"))
        .bind::<BigInt, _>(tenant)
        .bind::<SqlUuid, _>(id)
        .get_result(tx.conn())
        .optional()?;
    row.map(|row| stored(tenant, row)).transpose()
}

/// The records of a session's chain from `after` on, in order, at most `limit`.
pub(super) fn chain(tx: &mut Tx, session: Uuid, after: i64, limit: i64) -> Result<Vec<Stored>> {
    let tenant = tx.tenant();
    let rows: Vec<RecordRow> =
        sql_query(format!("{RECORD} and session_id = $2 and position > $3 order by position limit $4"))
            .bind::<BigInt, _>(tenant)
            .bind::<SqlUuid, _>(session)
            .bind::<BigInt, _>(after)
            .bind::<BigInt, _>(limit)
            .load(tx.conn())?;
    rows.into_iter().map(|row| stored(tenant, row)).collect()
}

#[derive(QueryableByName)]
struct ItemRow {
    #[diesel(sql_type = BigInt)]
    n: i64,
    #[diesel(sql_type = BigInt)]
    file_id: i64,
    #[diesel(sql_type = BigInt)]
    version: i64,
    #[diesel(sql_type = SmallInt)]
    status: i16,
    #[diesel(sql_type = SmallInt)]
    matched_by: i16,
    #[diesel(sql_type = SmallInt)]
    authority: i16,
    #[diesel(sql_type = SmallInt)]
    freshness: i16,
    #[diesel(sql_type = Nullable<Text>)]
    path: Option<String>,
    #[diesel(sql_type = Nullable<BigInt>)]
    size: Option<i64>,
    #[diesel(sql_type = Nullable<Binary>)]
    sha256: Option<Vec<u8>>,
}

// The view's own `asked` is not read: Postgres refuses to take U+0000, which a request may hold, out of JSON.
const ITEM: &str =
    "i.n, i.file_id, i.version, i.status, i.matched_by, i.authority, i.freshness, i.path, i.size, i.sha256";

fn item(row: ItemRow, stored: &Stored) -> Item {
    let n = row.n.to_string();
    let text = |of: &Map<String, Value>| of.get(&n).and_then(Value::as_str).map(str::to_owned);
    // An item whose version row is missing is told from one that never had a file by its number.
    let file = (row.file_id != 0).then(|| FileVersion {
        file_id: row.file_id,
        version: row.version,
        path: row.path.unwrap_or_default(),
        size: row.size.unwrap_or_default(),
        sha256: row.sha256.unwrap_or_default(),
    });
    Item {
        file,
        status: row.status,
        matched_by: row.matched_by,
        authority: row.authority,
        freshness: row.freshness,
        asked: text(&stored.asked),
        detail: text(&stored.details),
    }
}

/// All items of a record, each with what its version row holds now.
pub(super) fn items(tx: &mut Tx, stored: &Stored) -> Result<Vec<Item>> {
    let rows: Vec<ItemRow> = sql_query(format!(
        "select {ITEM} from provenance_items i where i.tenant_id = $1 and i.record_id = $2 order by i.n"
    ))
    .bind::<BigInt, _>(tx.tenant())
    .bind::<SqlUuid, _>(stored.record.id)
    .load(tx.conn())?;
    Ok(rows.into_iter().map(|row| item(row, stored)).collect())
}

#[derive(QueryableByName)]
struct HeldRow {
    #[diesel(embed)]
    item: ItemRow,
    #[diesel(sql_type = Nullable<Text>)]
    media_type: Option<String>,
    #[diesel(sql_type = Nullable<Bool>)]
    is_text: Option<bool>,
    #[diesel(sql_type = Nullable<Timestamptz>)]
    source_modified_at: Option<DateTime<Utc>>,
    #[diesel(sql_type = Nullable<Text>)]
    source_version: Option<String>,
    #[diesel(sql_type = Nullable<Timestamptz>)]
    version_created_at: Option<DateTime<Utc>>,
    #[diesel(sql_type = Bool)]
    gone: bool,
    #[diesel(sql_type = Nullable<BigInt>)]
    lines: Option<i64>,
}

/// Items of a record after number `after`, at most `limit`, each with all that is on record of its version at `now`. A
/// version is gone when it was purged, or its file was deleted longer ago than its slate keeps such files.
pub(super) fn held(
    tx: &mut Tx,
    stored: &Stored,
    after: i64,
    limit: i64,
    now: DateTime<Utc>,
) -> Result<Vec<(i64, Item, Option<Held>)>> {
    let rows: Vec<HeldRow> = sql_query(format!(
        "select {ITEM}, i.media_type, i.is_text, i.source_modified_at, i.source_version, i.version_created_at, \
                (i.purged_at is not null \
                    or coalesce(d.deleted_at < $5 - make_interval(days => s.retention_days), false)) as gone, \
                t.lines \
         from provenance_items i \
         left join file_ids d on d.tenant_id = $1 and d.id = i.file_id \
         left join slates s on s.tenant_id = $1 and s.id = d.slate_id \
         left join files f on f.tenant_id = $1 and f.id = i.file_id and f.sha256 = i.sha256 and i.is_text and i.status = 1 \
         left join blobs b on b.tenant_id = $1 and b.sha256 = i.sha256 and f.data is null and i.is_text and i.status = 1 \
         left join lateral (select convert_from(coalesce(f.data, b.data), 'UTF8') as text) as c on true \
         left join lateral (select length(c.text) - length(replace(c.text, E'\\n', '')) \
                + (right(c.text, 1) not in ('', E'\\n'))::int::bigint as lines) as t on true \
         where i.tenant_id = $1 and i.record_id = $2 and i.n > $3 order by i.n limit $4"
    ))
    .bind::<BigInt, _>(tx.tenant())
    .bind::<SqlUuid, _>(stored.record.id)
    .bind::<BigInt, _>(after)
    .bind::<BigInt, _>(limit)
    .bind::<Timestamptz, _>(now)
    .load(tx.conn())?;
    Ok(rows
        .into_iter()
        .map(|row| {
            let held = row.media_type.map(|media_type| Held {
                media_type,
                is_text: row.is_text.unwrap_or_default(),
                last_modified: row.source_modified_at.or(row.version_created_at),
                source_version: row.source_version,
                gone: row.gone,
                lines: row.lines,
            });
            (row.item.n, item(row.item, stored), held)
        })
        .collect())
}

/// The end of a chain: how many records, and the hash of the last.
#[derive(QueryableByName)]
pub(super) struct End {
    /// The number of records.
    #[diesel(sql_type = BigInt)]
    pub records: i64,
    /// The last one's hash.
    #[diesel(sql_type = Nullable<Binary>)]
    pub last_hash: Option<Vec<u8>>,
}

/// The seal of a finished session.
pub(super) fn seal(tx: &mut Tx, session: Uuid) -> Result<Option<End>> {
    Ok(sql_query("select records, last_hash from session_seals where tenant_id = $1 and session_id = $2")
        .bind::<BigInt, _>(tx.tenant())
        .bind::<SqlUuid, _>(session)
        .get_result(tx.conn())
        .optional()?)
}

#[derive(QueryableByName)]
struct SessionRow {
    #[diesel(sql_type = Text)]
    slate: String,
    #[diesel(embed)]
    end: End,
}

/// The slate of a session that is still kept, and the end of its chain.
pub(super) fn session(tx: &mut Tx, session: Uuid) -> Result<Option<(String, End)>> {
    let row: Option<SessionRow> = sql_query(
        "select slate, chain_length as records, chain_hash as last_hash from sessions where tenant_id = $1 and id = $2",
    )
    .bind::<BigInt, _>(tx.tenant())
    .bind::<SqlUuid, _>(session)
    .get_result(tx.conn())
    .optional()?;
    Ok(row.map(|row| (row.slate, row.end)))
}

#[derive(QueryableByName)]
struct ChainRow {
    #[diesel(sql_type = SqlUuid)]
    session_id: Uuid,
}

/// The sessions after `after` that have records, a seal or a state, in order, at most `limit`.
pub(super) fn chains(tx: &mut Tx, after: Uuid, limit: i64) -> Result<Vec<Uuid>> {
    let rows: Vec<ChainRow> = sql_query(
        "select session_id from provenance where tenant_id = $1 and session_id > $2 \
         union select session_id from session_seals where tenant_id = $1 and session_id > $2 \
         union select id from sessions where tenant_id = $1 and id > $2 \
         order by session_id limit $3",
    )
    .bind::<BigInt, _>(tx.tenant())
    .bind::<SqlUuid, _>(after)
    .bind::<BigInt, _>(limit)
    .load(tx.conn())?;
    Ok(rows.into_iter().map(|row| row.session_id).collect())
}

/// A version whose stored bytes are not those of its hash.
#[derive(QueryableByName)]
pub(super) struct AlteredRow {
    /// The slate's name.
    #[diesel(sql_type = Text)]
    pub slate: String,
    /// The version's path.
    #[diesel(sql_type = Text)]
    pub path: String,
    /// Its number.
    #[diesel(sql_type = BigInt)]
    pub version: i64,
}

/// The versions among a record's items whose stored bytes are not those of their hash.
pub(super) fn altered(tx: &mut Tx, record: Uuid) -> Result<Vec<AlteredRow>> {
    Ok(sql_query(
        "select distinct s.name as slate, v.path, v.version
         from provenance p cross join lateral unnest(p.file_ids, p.versions) as i (file_id, version)
         join file_versions v on v.tenant_id = $1 and v.file_id = i.file_id and v.version = i.version
         join slates s on s.tenant_id = $1 and s.id = v.slate_id
         join version_contents b on b.tenant_id = $1 and b.file_id = i.file_id and b.version = i.version
         where p.tenant_id = $1 and p.id = $2 and sha256(b.data) <> v.sha256 order by v.path, v.version",
    )
    .bind::<BigInt, _>(tx.tenant())
    .bind::<SqlUuid, _>(record)
    .load(tx.conn())?)
}

/// The records after `after` that stand in no session's chain, by id, at most `limit`.
pub(super) fn alone(tx: &mut Tx, after: Uuid, limit: i64) -> Result<Vec<Stored>> {
    let tenant = tx.tenant();
    let rows: Vec<RecordRow> =
        sql_query(format!("{RECORD} and session_id is null and id > $2 order by id limit $3"))
            .bind::<BigInt, _>(tenant)
            .bind::<SqlUuid, _>(after)
            .bind::<BigInt, _>(limit)
            .load(tx.conn())?;
    rows.into_iter().map(|row| stored(tenant, row)).collect()
}

/// Where stored contents are: first those in the rows of files, by the file's number, then those by hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Contents {
    /// In the row of this file.
    Row(i64),
    /// By this hash.
    Hash(Vec<u8>),
}

/// Some contents, and which of them are not those of their hash.
#[derive(QueryableByName)]
pub(super) struct ContentsRow {
    /// The last file that was looked at; none where there was none, or it was looked at by hash.
    #[diesel(sql_type = Nullable<BigInt>)]
    pub file: Option<i64>,
    /// The last hash that was looked at; none where there was none, or it was looked at by file.
    #[diesel(sql_type = Nullable<Binary>)]
    pub hash: Option<Vec<u8>>,
    /// How many were looked at.
    #[diesel(sql_type = BigInt)]
    pub count: i64,
    /// The hashes of those that were altered.
    #[diesel(sql_type = Array<Binary>)]
    pub altered: Vec<Vec<u8>>,
}

/// Looks at some of the tenant's contents after a place, in order, at most `limit`.
pub(super) fn check_contents(tx: &mut Tx, after: &Contents, limit: i64) -> Result<ContentsRow> {
    const ALTERED: &str = "count(data) as count, \
        coalesce(array_agg(sha256 order by sha256) filter (where sha256(data) <> sha256), '{}') as altered";
    let row = match after {
        Contents::Row(file) => sql_query(format!(
            "select max(id) as file, null::bytea as hash, {ALTERED} from (select id, sha256, data from files \
                 where tenant_id = $1 and id > $2 order by id limit $3) as f"
        ))
        .bind::<BigInt, _>(tx.tenant())
        .bind::<BigInt, _>(file)
        .bind::<BigInt, _>(limit)
        .get_result(tx.conn())?,
        Contents::Hash(hash) => sql_query(format!(
            "select null::bigint as file, (array_agg(sha256 order by sha256 desc))[1] as hash, {ALTERED} \
             from (select sha256, data from blobs where tenant_id = $1 and sha256 > $2 order by sha256 limit $3) as b"
        ))
        .bind::<BigInt, _>(tx.tenant())
        .bind::<Binary, _>(hash)
        .bind::<BigInt, _>(limit)
        .get_result(tx.conn())?,
    };
    Ok(row)
}

/// The versions that have these contents.
pub(super) fn versions_of(tx: &mut Tx, sha256: &[u8]) -> Result<Vec<AlteredRow>> {
    Ok(sql_query(
        "select s.name as slate, v.path, v.version from file_versions v
         join slates s on s.tenant_id = $1 and s.id = v.slate_id
         where v.tenant_id = $1 and v.blob = $2 order by s.name, v.path, v.version",
    )
    .bind::<BigInt, _>(tx.tenant())
    .bind::<Binary, _>(sha256)
    .load(tx.conn())?)
}
