//! The files' SQL.

pub mod tags;
pub mod versions;

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Binary, Bool, Integer, Nullable, Text, Timestamptz};
use diesel::{QueryableByName, sql_query};

use super::head::Head;
use super::write::Entry;
use crate::authority::Authority;
use crate::db::Tx;
use crate::db::kept::Kept;
use crate::db::schema::files;
use crate::error::Result;
use crate::path::{FilePath, has_spellings, normal_forms};

#[derive(QueryableByName)]
struct HeadRow {
    #[diesel(sql_type = BigInt)]
    id: i64,
    #[diesel(sql_type = BigInt)]
    folder_id: i64,
    #[diesel(sql_type = Text)]
    path: String,
    #[diesel(sql_type = BigInt)]
    version: i64,
    #[diesel(sql_type = BigInt)]
    size: i64,
    #[diesel(sql_type = Binary)]
    sha256: Vec<u8>,
    #[diesel(sql_type = Text)]
    media_type: String,
    #[diesel(sql_type = Bool)]
    is_text: bool,
    #[diesel(sql_type = Nullable<Text>)]
    authority: Option<String>,
    #[diesel(sql_type = Bool)]
    sensitive: bool,
    #[diesel(sql_type = Bool)]
    hidden: bool,
    #[diesel(sql_type = BigInt)]
    revision: i64,
    #[diesel(sql_type = BigInt)]
    tags_revision: i64,
    #[diesel(sql_type = Timestamptz)]
    created_at: DateTime<Utc>,
    #[diesel(sql_type = Timestamptz)]
    updated_at: DateTime<Utc>,
    #[diesel(sql_type = Nullable<Timestamptz>)]
    source_modified_at: Option<DateTime<Utc>>,
    #[diesel(sql_type = Nullable<Text>)]
    source_version: Option<String>,
}

impl From<HeadRow> for Head {
    fn from(row: HeadRow) -> Head {
        Head {
            id: row.id,
            folder_id: row.folder_id,
            path: row.path,
            version: row.version,
            size: row.size,
            sha256: row.sha256,
            media_type: row.media_type,
            is_text: row.is_text,
            authority: row.authority.as_deref().and_then(Authority::from_word),
            sensitive: row.sensitive,
            hidden: row.hidden,
            revision: row.revision,
            tags_revision: row.tags_revision,
            created_at: row.created_at,
            updated_at: row.updated_at,
            source_modified_at: row.source_modified_at,
            source_version: row.source_version,
        }
    }
}

#[derive(QueryableByName)]
struct IdRow {
    #[diesel(sql_type = BigInt)]
    id: i64,
}

/// The columns of a head, of `files f` and the tables of [`HEAD_JOINS`].
const HEAD: &str = "select f.id, f.folder_id, f.path, f.version, f.size, f.sha256, f.media_type, f.is_text, f.authority, \
        f.sensitive, f.hidden, f.revision, t.revision as tags_revision, f.created_at, f.updated_at, \
        v.source_modified_at, v.source_version";
const HEAD_JOINS: &str = "cross join lateral (select * from file_tags t \
        where t.tenant_id = $1 and t.folder_id = f.folder_id and t.name = f.name limit 1) as t \
    cross join lateral (select * from file_versions v \
        where v.tenant_id = $1 and v.file_id = f.id and v.version = f.version limit 1) as v";
/// The files at the paths `$3`. Here and wherever a batch names its rows, `lateral` and `limit 1` have each looked up by
/// its key, in the order given: joins are reordered by what the planner expects, and while much is loaded that is wrong.
const AT_PATHS: &str = "from unnest($3::text[]) as asked (path) cross join lateral (select * from files f \
    where f.tenant_id = $1 and f.slate_id = $2 and f.path = asked.path limit 1) as f";

/// The files at these very paths, hidden ones included, by path; locked in order of path where `lock` says so.
pub fn heads(tx: &mut Tx, slate: i64, paths: &[&str], lock: bool) -> Result<HashMap<String, Head>> {
    if lock {
        // Apart from the joins: a statement that waited for a row sees that row as it is then, and the others as they were.
        sql_query(
            "select f.id from (select path from unnest($3) as asked (path) order by path collate \"C\") as asked \
             cross join lateral (select f.id from files f \
                 where f.tenant_id = $1 and f.slate_id = $2 and f.path = asked.path limit 1 for update) as f",
        )
        .bind::<BigInt, _>(tx.tenant())
        .bind::<BigInt, _>(slate)
        .bind::<Array<Text>, _>(paths)
        .load::<IdRow>(tx.conn())?;
    }
    let rows: Vec<HeadRow> = sql_query(format!("{HEAD} {AT_PATHS} {HEAD_JOINS}"))
        .bind::<BigInt, _>(tx.tenant())
        .bind::<BigInt, _>(slate)
        .bind::<Array<Text>, _>(paths)
        .load(tx.conn())?;
    Ok(rows.into_iter().map(|row| (row.path.clone(), row.into())).collect())
}

#[derive(QueryableByName)]
struct OpenRow {
    #[diesel(embed)]
    head: HeadRow,
    #[diesel(sql_type = Nullable<Binary>)]
    data: Option<Vec<u8>>,
}

/// The file at this very path of a slate, hidden or not, found in one statement with its contents, where these are `most` bytes
/// at most.
pub fn open(tx: &mut Tx, slate: &str, path: &str, most: i64) -> Result<Option<(Head, Option<Vec<u8>>)>> {
    let statement = sql_query(format!(
        "{HEAD}, case when $4 <= 0 or f.size > $4 then null when f.data is not null then f.data \
                else (select b.data from blobs b where b.tenant_id = $1 and b.sha256 = f.sha256) end as data \
         from slates s cross join lateral (select * from files f \
             where f.tenant_id = $1 and f.slate_id = s.id and f.path = $3 limit 1) as f {HEAD_JOINS} \
         where s.tenant_id = $1 and s.name = $2 and s.deleted_at is null"
    ))
    .bind::<BigInt, _>(tx.tenant())
    .bind::<Text, _>(slate)
    .bind::<Text, _>(path)
    .bind::<BigInt, _>(most);
    let row: Option<OpenRow> = Kept(statement).get_result(tx.conn()).optional()?;
    Ok(row.map(|row| (row.head.into(), row.data)))
}

/// The paths after `after`, in byte order, at most `limit`.
pub fn paths(tx: &mut Tx, slate: i64, after: &str, limit: i64) -> Result<Vec<String>> {
    Ok(files::table
        .filter(files::tenant_id.eq(tx.tenant()))
        .filter(files::slate_id.eq(slate))
        .filter(files::path.gt(after))
        .order(files::path)
        .limit(limit)
        .select(files::path)
        .load(tx.conn())?)
}

/// The file whose path is another spelling of `path`, by Unicode normal form C.
pub fn head_by_nfc(tx: &mut Tx, slate: i64, path: &str) -> Result<Option<Head>> {
    let row: Option<HeadRow> = sql_query(format!(
        "{HEAD} from files f {HEAD_JOINS} where f.tenant_id = $1 and f.slate_id = $2 and f.nfc = normalize($3, NFC)"
    ))
        .bind::<BigInt, _>(tx.tenant())
        .bind::<BigInt, _>(slate)
        .bind::<Text, _>(path)
        .get_result(tx.conn())
        .optional()?;
    Ok(row.map(Head::from))
}

#[derive(QueryableByName)]
struct TakenRow {
    #[diesel(sql_type = Text)]
    path: String,
    #[diesel(sql_type = Bool)]
    by_folder: bool,
}

/// Which of these paths no file can have, and why: a folder has it, or something has another spelling of it.
pub fn taken(tx: &mut Tx, slate: i64, paths: &[&str]) -> Result<HashMap<String, &'static str>> {
    let by_path = "select asked.path, true as by_folder from unnest($3) as asked (path) \
         cross join lateral (select from folders d \
             where d.tenant_id = $1 and d.slate_id = $2 and d.path = asked.path limit 1) as d";
    let by_spelling = " union all \
         select asked.path, false from unnest($3, $4) as asked (path, nfc) \
         join files f on f.tenant_id = $1 and f.slate_id = $2 and f.nfc = asked.nfc and f.path <> asked.path \
         union all \
         select asked.path, false from unnest($3, $4) as asked (path, nfc) \
         join folders d on d.tenant_id = $1 and d.slate_id = $2 and d.nfc = asked.nfc and d.path <> asked.path";
    let statement = |spelt| {
        sql_query(format!("{by_path}{spelt}"))
            .bind::<BigInt, _>(tx.tenant())
            .bind::<BigInt, _>(slate)
            .bind::<Array<Text>, _>(paths)
    };
    let rows: Vec<TakenRow> = match paths.iter().any(|path| has_spellings(path)) {
        true => statement(by_spelling).bind::<Array<Text>, _>(normal_forms(paths)).load(tx.conn())?,
        false => statement("").load(tx.conn())?,
    };
    let why = |by_folder| match by_folder {
        true => "a folder of this name exists",
        false => "a name that differs only in Unicode normal form exists in the folder",
    };
    Ok(rows.into_iter().map(|row| (row.path, why(row.by_folder))).collect())
}

#[derive(QueryableByName)]
struct LastRow {
    #[diesel(sql_type = Text)]
    path: String,
    #[diesel(sql_type = BigInt)]
    version: i64,
}

/// The greatest version that each path ever had, whatever file was at it.
pub fn last_versions(tx: &mut Tx, slate: i64, paths: &[&str]) -> Result<HashMap<String, i64>> {
    let rows: Vec<LastRow> = sql_query(
        "select asked.path, last.version from unnest($3) as asked (path) \
         cross join lateral (select v.version from file_versions v \
             where v.tenant_id = $1 and v.slate_id = $2 and v.path = asked.path \
             order by v.version desc limit 1) as last",
    )
    .bind::<BigInt, _>(tx.tenant())
    .bind::<BigInt, _>(slate)
    .bind::<Array<Text>, _>(paths)
    .load(tx.conn())?;
    Ok(rows.into_iter().map(|row| (row.path, row.version)).collect())
}

pub fn new_identities(tx: &mut Tx, slate: i64, count: usize, now: DateTime<Utc>) -> Result<Vec<i64>> {
    if count == 0 {
        return Ok(Vec::new());
    }
    let rows: Vec<IdRow> = sql_query(
        "insert into file_ids (tenant_id, slate_id, created_at) \
         select $1, $2, $3 from generate_series(1, $4) returning id",
    )
    .bind::<BigInt, _>(tx.tenant())
    .bind::<BigInt, _>(slate)
    .bind::<Timestamptz, _>(now)
    .bind::<Integer, _>(count as i32)
    .load(tx.conn())?;
    Ok(rows.into_iter().map(|row| row.id).collect())
}

/// Stores contents that are no part of a file's row, each distinct one once; in the order of their hashes, so that two writers do
/// not deadlock.
pub fn insert_blobs(tx: &mut Tx, entries: &[&Entry]) -> Result<()> {
    let hashes: Vec<&[u8]> = entries.iter().map(|entry| &*entry.sha256).collect();
    let contents: Vec<&[u8]> = entries.iter().map(|entry| &*entry.write.contents).collect();
    sql_query(
        "insert into blobs (tenant_id, sha256, data) \
         select distinct on (sha256) $1, sha256, data from unnest($2, $3) as new (sha256, data) order by sha256 \
         on conflict do nothing",
    )
    .bind::<BigInt, _>(tx.tenant())
    .bind::<Array<Binary>, _>(hashes)
    .bind::<Array<Binary>, _>(contents)
    .execute(tx.conn())?;
    Ok(())
}

/// Keeps the contents in the rows of these files among the blobs, for the versions that had them: the files are about to get
/// others, or to go. The caller is one of the tenant's [writers](crate::metatags::ops::hold_writers).
pub fn keep_contents(tx: &mut Tx, files: &[i64]) -> Result<()> {
    sql_query(
        "insert into blobs (tenant_id, sha256, data) \
         select distinct on (f.sha256) f.tenant_id, f.sha256, f.data from unnest($2) as old (id) \
         cross join lateral (select * from files f where f.tenant_id = $1 and f.id = old.id limit 1) as f \
         where f.data is not null order by f.sha256 on conflict do nothing",
    )
    .bind::<BigInt, _>(tx.tenant())
    .bind::<Array<BigInt>, _>(files)
    .execute(tx.conn())?;
    Ok(())
}

pub fn insert_versions(tx: &mut Tx, slate: i64, entries: &[&Entry], now: DateTime<Utc>) -> Result<()> {
    let next = |entry: &&Entry| entry.next.unwrap_or_default();
    sql_query(
        "insert into file_versions (tenant_id, slate_id, path, version, file_id, sha256, size, media_type, is_text, \
                                    source_modified_at, source_version, created_at) \
         select $1, $2, path, version, file_id, sha256, size, media_type, is_text, modified, source, $3 \
         from unnest($4, $5, $6, $7, $8, $9, $10, $11, $12) \
              as new (path, version, file_id, sha256, size, media_type, is_text, modified, source) returning 1",
    )
    .bind::<BigInt, _>(tx.tenant())
    .bind::<BigInt, _>(slate)
    .bind::<Timestamptz, _>(now)
    .bind::<Array<Text>, _>(column(entries, |e| e.write.path.as_str()))
    .bind::<Array<BigInt>, _>(column(entries, |e| next(&e).1))
    .bind::<Array<BigInt>, _>(column(entries, |e| next(&e).0))
    .bind::<Array<Binary>, _>(column(entries, |e| &*e.sha256))
    .bind::<Array<BigInt>, _>(column(entries, |e| e.write.contents.len() as i64))
    .bind::<Array<Text>, _>(column(entries, |e| &*e.media_type))
    .bind::<Array<Bool>, _>(column(entries, |e| e.is_text))
    .bind::<Array<Nullable<Timestamptz>>, _>(column(entries, |e| e.write.source_modified_at))
    .bind::<Array<Nullable<Text>>, _>(column(entries, |e| e.write.source_version.as_deref()))
    .execute(tx.conn())?;
    Ok(())
}

fn column<'a, T>(entries: &[&'a Entry<'a>], of: impl Fn(&'a Entry<'a>) -> T) -> Vec<T> {
    entries.iter().map(|entry| of(entry)).collect()
}

/// The columns of `files` that a write of contents sets, from arrays; `hidden` follows from the rest.
const NEW_FILE: &str = "select new.*, d.id as folder_id, \
        coalesce(new.sensitive, false) or d.hidden or coalesce(new.path ~ s.deny_regex, false) as hidden \
    from unnest($4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16) as new \
         (id, folder, name, path, version, sha256, size, media_type, is_text, authority, sensitive, modified, data) \
    cross join lateral (select d.id, d.hidden from folders d where d.tenant_id = $1 and d.id = new.folder limit 1) as d \
    join tenant_settings s on s.tenant_id = $1";

fn execute_files(
    tx: &mut Tx,
    slate: i64,
    entries: &[&Entry],
    now: DateTime<Utc>,
    statement: String,
) -> Result<()> {
    let id = |entry: &Entry| match (&entry.next, &entry.head) {
        (Some((id, version)), _) => (*id, *version),
        (None, Some(head)) => (head.id, head.version),
        (None, None) => (0, 0),
    };
    sql_query(statement)
        .bind::<BigInt, _>(tx.tenant())
        .bind::<BigInt, _>(slate)
        .bind::<Timestamptz, _>(now)
        .bind::<Array<BigInt>, _>(column(entries, |e| id(e).0))
        .bind::<Array<BigInt>, _>(column(entries, |e| e.folder.id))
        .bind::<Array<Text>, _>(column(entries, |e| String::from(e.write.path.name())))
        .bind::<Array<Text>, _>(column(entries, |e| e.write.path.as_str()))
        .bind::<Array<BigInt>, _>(column(entries, |e| id(e).1))
        .bind::<Array<Binary>, _>(column(entries, |e| &*e.sha256))
        .bind::<Array<BigInt>, _>(column(entries, |e| e.write.contents.len() as i64))
        .bind::<Array<Text>, _>(column(entries, |e| &*e.media_type))
        .bind::<Array<Bool>, _>(column(entries, |e| e.is_text))
        .bind::<Array<Nullable<Text>>, _>(column(entries, |e| e.write.authority.map(Authority::as_str)))
        .bind::<Array<Nullable<Bool>>, _>(column(entries, |e| e.write.sensitive))
        .bind::<Array<Nullable<Timestamptz>>, _>(column(entries, |e| e.write.source_modified_at))
        .bind::<Array<Nullable<Binary>>, _>(column(entries, Entry::in_row))
        .execute(tx.conn())?;
    Ok(())
}

pub fn insert_files(tx: &mut Tx, slate: i64, entries: &[&Entry], now: DateTime<Utc>) -> Result<()> {
    let statement = format!(
        "insert into files (tenant_id, slate_id, id, folder_id, name, path, version, sha256, size, media_type, is_text, \
                            authority, sensitive, hidden, modified_at, created_at, updated_at, data) \
         select $1, $2, n.id, n.folder_id, n.name, n.path, n.version, n.sha256, n.size, n.media_type, n.is_text, \
                n.authority, coalesce(n.sensitive, false), n.hidden, coalesce(n.modified, $3), $3, $3, n.data \
         from ({NEW_FILE}) as n"
    );
    execute_files(tx, slate, entries, now, statement)
}

pub fn update_files(tx: &mut Tx, slate: i64, entries: &[&Entry], now: DateTime<Utc>) -> Result<()> {
    let statement = format!(
        "update files f set version = n.version, sha256 = n.sha256, size = n.size, media_type = n.media_type, \
                data = case when f.sha256 = n.sha256 then f.data else n.data end, is_text = n.is_text, authority = coalesce(n.authority, f.authority), \
                sensitive = coalesce(n.sensitive, f.sensitive), \
                hidden = n.hidden or coalesce(n.sensitive, f.sensitive), \
                revision = f.revision + (f.version = n.version)::int, updated_at = $3, \
                modified_at = case f.version when n.version then f.modified_at else coalesce(n.modified, $3) end \
         from ({NEW_FILE}) as n where f.tenant_id = $1 and f.slate_id = $2 and f.id = n.id"
    );
    execute_files(tx, slate, entries, now, statement)?;
    follow_hidden(tx, slate, column(entries, |e| e.write.path.as_str()))
}

/// Has the rows of metatags say what the files say of being hidden.
fn follow_hidden(tx: &mut Tx, slate: i64, paths: Vec<&str>) -> Result<()> {
    sql_query(
        "update file_tags t set hidden = f.hidden from files f \
         where t.tenant_id = $1 and t.slate_id = $2 and t.path = any($3) \
           and f.tenant_id = $1 and f.slate_id = $2 and f.path = t.path and t.hidden <> f.hidden",
    )
    .bind::<BigInt, _>(tx.tenant())
    .bind::<BigInt, _>(slate)
    .bind::<Array<Text>, _>(paths)
    .execute(tx.conn())?;
    Ok(())
}

/// Sets what is not contents.
pub fn set(
    tx: &mut Tx,
    slate: i64,
    head: &Head,
    media_type: &str,
    authority: Option<Authority>,
    sensitive: bool,
    now: DateTime<Utc>,
) -> Result<()> {
    sql_query(
        "update files f set media_type = $3, authority = $4, sensitive = $5, updated_at = $6, revision = f.revision + 1, \
                hidden = $5 or d.hidden or coalesce(f.path ~ s.deny_regex, false) \
         from folders d, tenant_settings s \
         where f.tenant_id = $1 and f.id = $2 and d.tenant_id = $1 and d.id = f.folder_id and s.tenant_id = $1",
    )
    .bind::<BigInt, _>(tx.tenant())
    .bind::<BigInt, _>(head.id)
    .bind::<Text, _>(media_type)
    .bind::<Nullable<Text>, _>(authority.map(Authority::as_str))
    .bind::<Bool, _>(sensitive)
    .bind::<Timestamptz, _>(now)
    .execute(tx.conn())?;
    follow_hidden(tx, slate, vec![&head.path])
}

/// Moves a file: a new version with the same bytes, at the new path.
pub fn relocate(
    tx: &mut Tx,
    slate: i64,
    head: &Head,
    folder: i64,
    to: &FilePath,
    version: i64,
    now: DateTime<Utc>,
) -> Result<()> {
    let name = String::from(to.name());
    sql_query(
        "insert into file_versions (tenant_id, slate_id, path, version, file_id, sha256, size, media_type, is_text, \
                                    source_modified_at, source_version, created_at) \
         select $1, $2, $3, $4, v.file_id, v.sha256, v.size, f.media_type, v.is_text, v.source_modified_at, \
                v.source_version, $5 \
         from file_versions v join files f on f.tenant_id = $1 and f.id = v.file_id \
         where v.tenant_id = $1 and v.file_id = $6 and v.version = $7",
    )
    .bind::<BigInt, _>(tx.tenant())
    .bind::<BigInt, _>(slate)
    .bind::<Text, _>(to.as_str())
    .bind::<BigInt, _>(version)
    .bind::<Timestamptz, _>(now)
    .bind::<BigInt, _>(head.id)
    .bind::<BigInt, _>(head.version)
    .execute(tx.conn())?;
    sql_query(
        "update files f set folder_id = $3, name = $4, path = $5, version = $6, updated_at = $7, \
                modified_at = (select coalesce(v.source_modified_at, v.created_at) from file_versions v \
                               where v.tenant_id = $1 and v.file_id = $2 and v.version = $6), \
                hidden = f.sensitive or d.hidden or coalesce($5 ~ s.deny_regex, false) \
         from folders d, tenant_settings s \
         where f.tenant_id = $1 and f.id = $2 and d.tenant_id = $1 and d.id = $3 and s.tenant_id = $1",
    )
    .bind::<BigInt, _>(tx.tenant())
    .bind::<BigInt, _>(head.id)
    .bind::<BigInt, _>(folder)
    .bind::<Text, _>(&name)
    .bind::<Text, _>(to.as_str())
    .bind::<BigInt, _>(version)
    .bind::<Timestamptz, _>(now)
    .execute(tx.conn())?;
    sql_query(
        "update file_tags t set folder_id = f.folder_id, name = f.name, path = f.path, hidden = f.hidden from files f \
         where f.tenant_id = $1 and f.id = $2 and t.tenant_id = $1 and t.slate_id = $3 and t.path = $4",
    )
    .bind::<BigInt, _>(tx.tenant())
    .bind::<BigInt, _>(head.id)
    .bind::<BigInt, _>(slate)
    .bind::<Text, _>(&head.path)
    .execute(tx.conn())?;
    Ok(())
}

/// Takes a file away. Its contents stay, unless they are to be purged, which comes next.
pub fn delete(tx: &mut Tx, head: &Head, purge: bool, now: DateTime<Utc>) -> Result<()> {
    if !purge {
        keep_contents(tx, &[head.id])?;
    }
    sql_query("update file_ids set deleted_at = $3, hidden = $4 where tenant_id = $1 and id = $2")
        .bind::<BigInt, _>(tx.tenant())
        .bind::<BigInt, _>(head.id)
        .bind::<Timestamptz, _>(now)
        .bind::<Bool, _>(head.hidden)
        .execute(tx.conn())?;
    sql_query("delete from file_tags where tenant_id = $1 and folder_id = $2 and file_id = $3")
        .bind::<BigInt, _>(tx.tenant())
        .bind::<BigInt, _>(head.folder_id)
        .bind::<BigInt, _>(head.id)
        .execute(tx.conn())?;
    sql_query("delete from files where tenant_id = $1 and id = $2")
        .bind::<BigInt, _>(tx.tenant())
        .bind::<BigInt, _>(head.id)
        .execute(tx.conn())?;
    Ok(())
}

/// The deleted files that ended at this path.
pub fn deleted_at_path(tx: &mut Tx, slate: i64, path: &str) -> Result<Vec<i64>> {
    let rows: Vec<IdRow> = sql_query(
        "select distinct i.id from file_versions v join file_ids i on i.tenant_id = $1 and i.id = v.file_id \
         where v.tenant_id = $1 and v.slate_id = $2 and v.path = $3 and i.deleted_at is not null \
           and v.purged_at is null and not exists (select from file_versions later \
               where later.tenant_id = $1 and later.file_id = v.file_id and later.version > v.version)",
    )
    .bind::<BigInt, _>(tx.tenant())
    .bind::<BigInt, _>(slate)
    .bind::<Text, _>(path)
    .load(tx.conn())?;
    Ok(rows.into_iter().map(|row| row.id).collect())
}
