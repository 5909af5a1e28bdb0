//! The SQL of retrieval, and the only module that sends search statements.
//!
//! They are sent as `sql_query`, which is never kept as a prepared statement, so that each is planned for its own values;
//! and against the search views, under which `like` and `&&` stay index conditions. Nothing else knows of either.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use diesel::connection::SimpleConnection;
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{BoxedSqlQuery, SqlQuery};
use diesel::sql_types::{Array, BigInt, Binary, Bool, Nullable, SmallInt, Text, Timestamptz};
use diesel::{QueryableByName, sql_query};

use super::facets::{self, Facet};
use super::filter::Filter;
use super::found::{Match, Scope, Totals};
use super::modes::metatag::{self, Plan};
use super::modes::{Arm, files, subfolders, r#where};
use super::nearest::{self, Lost};
use super::request::{MetatagTest, Request};
use super::sql::{Bind, Sql};
use super::{glob, union};
use crate::db::Tx;
use crate::db::kept::Kept;
use crate::error::{Error, Result};
use crate::path::has_spellings;

/// The statement, ready to be sent.
fn query(sql: &Sql) -> BoxedSqlQuery<'_, Pg, SqlQuery> {
    sql.binds.iter().fold(sql_query(&sql.text).into_boxed(), |query, bind| match bind {
        Bind::Int(value) => query.bind::<BigInt, _>(value),
        Bind::Text(value) => query.bind::<Text, _>(value),
        Bind::Ints(value) => query.bind::<Array<BigInt>, _>(value),
        Bind::Texts(value) => query.bind::<Array<Text>, _>(value),
        Bind::Bytes(value) => query.bind::<Array<Binary>, _>(value),
        Bind::Time(value) => query.bind::<Timestamptz, _>(value),
    })
}

/// How Postgres runs a statement of this module: the JSON of `explain (analyze, buffers)`.
///
/// # Errors
/// Those of the database.
pub fn explain(tx: &mut Tx, sql: &Sql) -> Result<serde_json::Value> {
    #[derive(QueryableByName)]
    struct Row {
        #[diesel(sql_type = diesel::sql_types::Json, column_name = "QUERY PLAN")]
        plan: serde_json::Value,
    }
    let explained = Sql {
        text: format!("explain (analyze, buffers, format json) {}", sql.text),
        binds: sql.binds.clone(),
    };
    let row: Row = query(&explained).get_result(tx.conn())?;
    Ok(row.plan)
}

/// Something at a path that was asked for.
#[derive(Debug, Clone, QueryableByName)]
pub struct Named {
    /// Its number.
    #[diesel(sql_type = BigInt)]
    pub id: i64,
    /// Its path, as it is stored.
    #[diesel(sql_type = Text)]
    pub path: String,
    /// What it was found by.
    #[diesel(sql_type = Text)]
    key: String,
    /// Bytes of a file's contents.
    #[diesel(sql_type = BigInt)]
    pub size: i64,
    /// It is kept from every reader.
    #[diesel(sql_type = Bool)]
    pub hidden: bool,
}

type LookUp = fn(i64, i64, Vec<String>, bool) -> Sql;

/// By path: exactly, and where nothing is found by another spelling of the same characters (retrieval semantics §2.3).
fn named(tx: &mut Tx, slate_id: i64, paths: &[&str], look_up: LookUp) -> Result<HashMap<String, Named>> {
    use unicode_normalization::UnicodeNormalization;
    if paths.is_empty() {
        return Ok(HashMap::new());
    }
    let exact = look_up(tx.tenant(), slate_id, paths.iter().map(|path| path.to_string()).collect(), false);
    let rows: Vec<Named> = query(&exact).load(tx.conn())?;
    let mut found: HashMap<String, Named> = rows.into_iter().map(|row| (row.key.clone(), row)).collect();
    let other: Vec<(&str, String)> = (paths.iter())
        .filter(|path| has_spellings(path) && !found.contains_key(**path))
        .map(|path| (*path, path.nfc().collect()))
        .collect();
    if !other.is_empty() {
        let sql = look_up(tx.tenant(), slate_id, other.iter().map(|(_, nfc)| nfc.clone()).collect(), true);
        let rows: Vec<Named> = query(&sql).load(tx.conn())?;
        let rows: HashMap<&str, &Named> = rows.iter().map(|row| (row.key.as_str(), row)).collect();
        found.extend(
            other
                .iter()
                .filter_map(|(path, nfc)| Some((path.to_string(), (*rows.get(nfc.as_str())?).clone()))),
        );
    }
    Ok(found)
}

/// The files at these paths from the slate's root, hidden ones too, by the path that was asked for.
pub(super) fn files_at(tx: &mut Tx, slate_id: i64, paths: &[&str]) -> Result<HashMap<String, Named>> {
    named(tx, slate_id, paths, files::look_up)
}

/// The folders at these paths, as [`files_at`].
pub(super) fn folders_at(tx: &mut Tx, slate_id: i64, paths: &[&str]) -> Result<HashMap<String, Named>> {
    named(tx, slate_id, paths, subfolders::look_up)
}

#[derive(QueryableByName)]
struct TermsRow {
    #[diesel(sql_type = Nullable<Array<BigInt>>)]
    ids: Option<Vec<i64>>,
}

#[derive(QueryableByName)]
struct PlacedTermsRow {
    #[diesel(sql_type = BigInt)]
    place: i64,
    #[diesel(sql_type = Nullable<Array<BigInt>>)]
    ids: Option<Vec<i64>>,
}

#[derive(QueryableByName)]
struct ProbedRow {
    #[diesel(sql_type = BigInt)]
    id: i64,
    #[diesel(sql_type = Text)]
    key: String,
}

/// The arms that select the files of a request. A mode that can find nothing has none. `page` is what they are for, where
/// that is all: what it comes after, and how many files it wants.
pub fn arms(
    tx: &mut Tx,
    scope: &Scope,
    request: &Request,
    page: Option<(Option<&str>, i64)>,
) -> Result<Vec<Arm>> {
    let mut arms = Vec::new();
    if let Some(test) = &request.metatag {
        arms.extend(metatag_arm(tx, scope, test, page)?.map(Arm::Metatag));
    }
    if let Some(pattern) = &request.glob {
        // A request holds only patterns that parse.
        let pattern = glob::Glob::parse(pattern).map_err(Error::internal)?;
        arms.push(Arm::Glob(pattern));
    }
    if let Some(filter) = &request.filter {
        arms.push(Arm::Where(where_arm(tx, filter)?));
    }
    Ok(arms)
}

fn metatag_arm(
    tx: &mut Tx,
    scope: &Scope,
    test: &MetatagTest,
    page: Option<(Option<&str>, i64)>,
) -> Result<Option<metatag::Arm>> {
    let row: TermsRow = query(&metatag::look_up(tx.tenant(), scope, test)).get_result(tx.conn())?;
    let ids = match metatag::plan(test, row.ids) {
        Plan::Nothing => return Ok(None),
        Plan::Search(arm) => return Ok(Some(arm)),
        Plan::Probe(ids) => ids,
    };
    if let Some((after, limit)) = page.filter(|(_, limit)| *limit <= metatag::FIRST / 8) {
        let soon = metatag::soon(tx.tenant(), scope, &ids, after, limit);
        let row: TotalsRow = query(&soon).get_result(tx.conn())?;
        if row.files == limit {
            return Ok(Some(metatag::Arm::Terms(ids)));
        }
    }
    allow_scans(tx, false)?;
    let rows: Vec<ProbedRow> = query(&metatag::probe(tx.tenant(), scope, &ids)).load(tx.conn())?;
    allow_scans(tx, true)?;
    let found = rows.into_iter().map(|row| (row.id, row.key)).collect();
    Ok(Some(metatag::Arm::probed(ids, found)))
}

fn where_arm(tx: &mut Tx, filter: &Filter) -> Result<r#where::Arm> {
    let wanted = r#where::wanted(filter);
    let mut ids = vec![None; wanted.len()];
    if !wanted.is_empty() {
        let rows: Vec<PlacedTermsRow> = query(&r#where::look_up(tx.tenant(), &wanted)).load(tx.conn())?;
        rows.into_iter().for_each(|row| ids[row.place as usize] = row.ids);
    }
    Ok(r#where::Arm::new(filter.clone(), ids))
}

/// Whether the planner may use anything but bitmap scans.
pub fn allow_scans(tx: &mut Tx, allowed: bool) -> Result<()> {
    let how = if allowed { "to default" } else { "= off" };
    Ok(tx.conn().batch_execute(&format!(
        "set local enable_seqscan {how}; set local enable_indexscan {how}; set local enable_indexonlyscan {how}"
    ))?)
}

#[derive(QueryableByName)]
struct MatchRow {
    #[diesel(sql_type = BigInt)]
    id: i64,
    /// Empty where the files were known.
    #[diesel(sql_type = Text)]
    key: String,
    #[diesel(sql_type = SmallInt)]
    bits: i16,
}

/// The first `limit` files after `after` that the arms select, except some.
pub(super) fn page(
    tx: &mut Tx,
    scope: &Scope,
    arms: &[Arm],
    after: Option<&str>,
    except: &[i64],
    limit: i64,
) -> Result<Vec<Match>> {
    if arms.is_empty() {
        return Ok(Vec::new());
    }
    let statement = union::page(tx.tenant(), scope, arms, after, except, limit);
    let rows: Vec<MatchRow> = query(&statement).load(tx.conn())?;
    Ok(rows.into_iter().map(|MatchRow { id, key, bits }| Match { id, key, bits }).collect())
}

/// By which arms the files at these paths, whose numbers are `ids`, are selected.
pub(super) fn matching(
    tx: &mut Tx,
    scope: &Scope,
    arms: &[Arm],
    paths: &[String],
    ids: &[i64],
) -> Result<HashMap<i64, i16>> {
    if arms.is_empty() || ids.is_empty() {
        return Ok(HashMap::new());
    }
    let rows: Vec<MatchRow> =
        query(&union::matching(tx.tenant(), scope, arms, paths, ids)).load(tx.conn())?;
    Ok(rows.into_iter().map(|row| (row.id, row.bits)).collect())
}

#[derive(QueryableByName)]
struct TotalsRow {
    #[diesel(sql_type = BigInt)]
    files: i64,
    #[diesel(sql_type = BigInt)]
    bytes: i64,
}

/// How many files after `after` the arms select, counted to one more than [`MAX_COUNTED`](super::found::MAX_COUNTED).
pub(super) fn count(
    tx: &mut Tx,
    scope: &Scope,
    arms: &[Arm],
    after: Option<&str>,
    except: &[i64],
) -> Result<Totals> {
    if arms.is_empty() {
        return Ok(Totals::default());
    }
    let row: TotalsRow =
        query(&union::count(tx.tenant(), scope, arms, after, except)).get_result(tx.conn())?;
    Ok(Totals { files: row.files, bytes: row.bytes })
}

/// What a file's head is, as a result tells of it.
#[derive(Debug, QueryableByName)]
pub(super) struct HeadRow {
    #[diesel(sql_type = BigInt)]
    pub id: i64,
    #[diesel(sql_type = Text)]
    pub path: String,
    #[diesel(sql_type = BigInt)]
    pub version: i64,
    #[diesel(sql_type = BigInt)]
    pub size: i64,
    #[diesel(sql_type = Binary)]
    pub sha256: Vec<u8>,
    #[diesel(sql_type = Text)]
    pub media_type: String,
    #[diesel(sql_type = Bool)]
    pub is_text: bool,
    /// The file's own word, or that of the nearest folder that has one.
    #[diesel(sql_type = Nullable<Text>)]
    pub authority: Option<String>,
    #[diesel(sql_type = Timestamptz)]
    pub last_modified: DateTime<Utc>,
}

/// The heads of these files, by number; of those that were deleted or hidden meanwhile there is none.
pub(super) fn heads(tx: &mut Tx, ids: &[i64]) -> Result<HashMap<i64, HeadRow>> {
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let statement = sql_query(
        "with recursive hit as materialized (
             select id, folder_id, path, version, size, sha256, media_type, is_text, authority, modified_at
             from files where tenant_id = $1 and id = any($2) and not hidden),
         chain as (
             select o.id as start, o.parent_id, o.authority, 0 as up
             from (select distinct folder_id from hit where authority is null) as h
             join folders o on o.tenant_id = $1 and o.id = h.folder_id
             union all
             select c.start, o.parent_id, o.authority, c.up + 1
             from chain c join folders o on o.tenant_id = $1 and o.id = c.parent_id
             where c.authority is null)
         select hit.id, hit.path, hit.version, hit.size, hit.sha256, hit.media_type, hit.is_text,
                coalesce(hit.authority, c.authority) as authority, hit.modified_at as last_modified
         from hit left join chain c on c.start = hit.folder_id and c.authority is not null",
    )
    .bind::<BigInt, _>(tx.tenant())
    .bind::<Array<BigInt>, _>(ids);
    let rows: Vec<HeadRow> = Kept(statement).load(tx.conn())?;
    Ok(rows.into_iter().map(|row| (row.id, row)).collect())
}

/// Whether there is a live file of this number.
pub(super) fn is_file(tx: &mut Tx, id: i64) -> Result<bool> {
    let mut sql = Sql::new(tx.tenant());
    sql.push("select count(*) as files, 0::bigint as bytes from files where tenant_id = $1 and id = ")
        .bind(id);
    let row: TotalsRow = query(&sql).get_result(tx.conn())?;
    Ok(row.files > 0)
}

#[derive(QueryableByName)]
struct BlobRow {
    #[diesel(sql_type = Binary)]
    sha256: Vec<u8>,
    #[diesel(sql_type = Binary)]
    data: Vec<u8>,
}

/// Contents by their SHA-256.
pub(super) fn contents(tx: &mut Tx, hashes: &[&[u8]]) -> Result<HashMap<Vec<u8>, Vec<u8>>> {
    if hashes.is_empty() {
        return Ok(HashMap::new());
    }
    let statement = sql_query("select sha256, data from blobs where tenant_id = $1 and sha256 = any($2)")
        .bind::<BigInt, _>(tx.tenant())
        .bind::<Array<Binary>, _>(hashes);
    let rows: Vec<BlobRow> = Kept(statement).load(tx.conn())?;
    Ok(rows.into_iter().map(|row| (row.sha256, row.data)).collect())
}

#[derive(QueryableByName)]
struct NearRow {
    #[diesel(sql_type = BigInt)]
    n: i64,
    #[diesel(sql_type = Text)]
    path: String,
}

/// Paths near to the lost ones, nearest first, by the number of the lost one; at most `limit` for each.
pub(super) fn near(tx: &mut Tx, lost: &[Lost], limit: usize) -> Result<HashMap<i64, Vec<String>>> {
    let mut near: HashMap<i64, Vec<String>> = HashMap::new();
    if lost.is_empty() {
        return Ok(near);
    }
    let rows: Vec<NearRow> = query(&nearest::statement(tx.tenant(), lost, limit)).load(tx.conn())?;
    for row in rows {
        near.entry(row.n).or_default().push(row.path);
    }
    Ok(near)
}

#[derive(QueryableByName)]
struct FacetRow {
    #[diesel(sql_type = Text)]
    name: String,
    #[diesel(sql_type = BigInt)]
    files: i64,
    #[diesel(sql_type = Text)]
    types: String,
    #[diesel(sql_type = Text)]
    values: String,
}

/// The metatags of the scope's files after the name `after`, by name, at most `limit`, each with at most `values`.
pub(super) fn facets(
    tx: &mut Tx,
    scope: &Scope,
    after: Option<&str>,
    limit: i64,
    values: i64,
) -> Result<Vec<Facet>> {
    let rows: Vec<FacetRow> =
        query(&facets::statement(tx.tenant(), scope, after, limit, values)).load(tx.conn())?;
    let facet = |row: FacetRow| {
        Ok(Facet {
            name: row.name,
            files: row.files,
            types: serde_json::from_str(&row.types)?,
            values: serde_json::from_str(&row.values)?,
        })
    };
    rows.into_iter().map(facet).collect::<Result<_, serde_json::Error>>().map_err(Error::internal)
}

#[derive(QueryableByName)]
struct FilesRow {
    #[diesel(sql_type = BigInt)]
    files: i64,
}

/// How many files of the scope facets look at, to one more than they do.
pub(super) fn count_tagged(tx: &mut Tx, scope: &Scope) -> Result<i64> {
    Ok(query(&facets::count(tx.tenant(), scope)).get_result::<FilesRow>(tx.conn())?.files)
}
