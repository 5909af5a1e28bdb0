//! The SQL of retrieval, and the only module that sends search statements.
//!
//! They are sent as `sql_query`, which is never kept as a prepared statement, so that each is planned for its own values;
//! and against the search views, under which `like` and `&&` stay index conditions. Nothing else knows of either.

mod facets;
mod look;

use std::collections::{BTreeSet, HashMap};

use chrono::{DateTime, Utc};
use diesel::connection::SimpleConnection;
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{BoxedSqlQuery, SqlQuery};
use diesel::sql_types::{Array, BigInt, Binary, Bool, Nullable, SmallInt, Text, Timestamptz};
use diesel::{QueryableByName, sql_query};

use super::filter::Filter;
use super::found::{Match, Scope, Totals};
use super::heads::{self, Contents};
use super::modes::metatag::{self, Plan, Probed};
use super::modes::{Arm, files, subfolders, r#where};
use super::nearest::{self, Lost};
use super::request::{MetatagTest, Request};
use super::sql::{Bind, Sql};
use super::{glob, union};
use crate::db::Tx;
use crate::db::kept::Kept;
use crate::error::{Error, Result};
use crate::path::has_spellings;

pub(super) use facets::{count_tagged, facets};
pub(super) use look::{Looked, Terms, look};

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
#[derive(Debug, Clone)]
pub(super) struct Named {
    /// Its number.
    pub id: i64,
    /// Its path, as it is stored.
    pub path: String,
    /// Bytes of a file's contents.
    pub size: i64,
    /// It is kept from every reader.
    pub hidden: bool,
    /// A file's head.
    pub head: Option<HeadRow>,
}

#[derive(QueryableByName)]
struct NamedFileRow {
    #[diesel(sql_type = Text)]
    key: String,
    #[diesel(sql_type = Bool)]
    hidden: bool,
    #[diesel(embed)]
    head: HeadRow,
}

#[derive(QueryableByName)]
struct NamedFolderRow {
    #[diesel(sql_type = BigInt)]
    id: i64,
    #[diesel(sql_type = Text)]
    path: String,
    #[diesel(sql_type = Text)]
    key: String,
    #[diesel(sql_type = Bool)]
    hidden: bool,
}

impl From<NamedFileRow> for (String, Named) {
    fn from(NamedFileRow { key, hidden, head }: NamedFileRow) -> (String, Named) {
        (key, Named { id: head.id, path: head.path.clone(), size: head.size, hidden, head: Some(head) })
    }
}

impl From<NamedFolderRow> for (String, Named) {
    fn from(NamedFolderRow { id, path, key, hidden }: NamedFolderRow) -> (String, Named) {
        (key, Named { id, path, size: 0, hidden, head: None })
    }
}

/// The files at these paths from the slate's root, hidden ones too, by the path that was asked for: exactly, and where nothing
/// is found by another spelling of the same characters (retrieval semantics §2.3).
pub(super) fn files_at(
    tx: &mut Tx,
    slate_id: i64,
    paths: &[&str],
    contents: Contents,
) -> Result<HashMap<String, Named>> {
    let mut found = HashMap::new();
    if !paths.is_empty() {
        let exact = paths.iter().map(|path| path.to_string()).collect();
        found = named_files(tx, slate_id, exact, false, contents)?;
    }
    files_by_spelling(tx, slate_id, paths, contents, &mut found)?;
    Ok(found)
}

/// Adds the files at those of the paths that no file has been found at, by another spelling.
pub(super) fn files_by_spelling(
    tx: &mut Tx,
    slate_id: i64,
    paths: &[&str],
    contents: Contents,
    found: &mut HashMap<String, Named>,
) -> Result<()> {
    let other = other_spellings(paths, found);
    if !other.is_empty() {
        let spelt = other.iter().map(|(_, nfc)| nfc.clone()).collect();
        by_spelling(other, named_files(tx, slate_id, spelt, true, contents)?, found);
    }
    Ok(())
}

fn named_files(
    tx: &mut Tx,
    slate_id: i64,
    paths: Vec<String>,
    by_nfc: bool,
    contents: Contents,
) -> Result<HashMap<String, Named>> {
    let sql = files::look_up(tx.tenant(), slate_id, paths, by_nfc, contents);
    Ok(query(&sql).load::<NamedFileRow>(tx.conn())?.into_iter().map(Into::into).collect())
}

/// The folders at these paths, as [`files_at`].
pub(super) fn folders_at(tx: &mut Tx, slate_id: i64, paths: &[&str]) -> Result<HashMap<String, Named>> {
    if paths.is_empty() {
        return Ok(HashMap::new());
    }
    let look = |tx: &mut Tx, paths, by_nfc| -> Result<HashMap<String, Named>> {
        let sql = subfolders::look_up(tx.tenant(), slate_id, paths, by_nfc);
        Ok(query(&sql).load::<NamedFolderRow>(tx.conn())?.into_iter().map(Into::into).collect())
    };
    let mut found = look(tx, paths.iter().map(|path| path.to_string()).collect(), false)?;
    let other = other_spellings(paths, &found);
    if !other.is_empty() {
        let spelt = look(tx, other.iter().map(|(_, nfc)| nfc.clone()).collect(), true)?;
        by_spelling(other, spelt, &mut found);
    }
    Ok(found)
}

/// Those of the paths that nothing was found at and that have other spellings, with their normal forms.
fn other_spellings(paths: &[&str], found: &HashMap<String, Named>) -> Vec<(String, String)> {
    use unicode_normalization::UnicodeNormalization;
    let lost = paths.iter().filter(|path| has_spellings(path) && !found.contains_key(**path));
    lost.map(|path| (path.to_string(), path.nfc().collect())).collect()
}

/// Adds what was found by normal form under the paths that were asked for.
fn by_spelling(
    other: Vec<(String, String)>,
    spelt: HashMap<String, Named>,
    found: &mut HashMap<String, Named>,
) {
    for (path, nfc) in other {
        if let Some(named) = spelt.get(&nfc) {
            found.insert(path, named.clone());
        }
    }
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
    #[diesel(sql_type = BigInt)]
    folder_id: i64,
    #[diesel(sql_type = Text)]
    key: String,
}

/// The arms that select the files of a request. A mode that can find nothing has none.
pub fn arms(tx: &mut Tx, scope: &Scope, request: &Request) -> Result<Vec<Arm>> {
    arms_of(tx, scope, request, Terms::default(), false)
}

/// The same, with the terms that have been looked up. Where a short page is all that they are for, [`page`] may have to
/// search by others.
pub(super) fn arms_of(
    tx: &mut Tx,
    scope: &Scope,
    request: &Request,
    terms: Terms,
    short: bool,
) -> Result<Vec<Arm>> {
    let mut arms = Vec::new();
    if let Some(test) = &request.metatag {
        let alone = request.glob.is_none() && request.filter.is_none();
        arms.extend(metatag_arm(tx, scope, test, terms.metatag, short && alone)?.map(Arm::Metatag));
    }
    if let Some(pattern) = &request.glob {
        // A request holds only patterns that parse.
        let pattern = glob::Glob::parse(pattern).map_err(Error::internal)?;
        arms.push(Arm::Glob(pattern));
    }
    if let Some(filter) = &request.filter {
        arms.push(Arm::Where(where_arm(tx, scope, filter, terms.filter)?));
    }
    Ok(arms)
}

fn metatag_arm(
    tx: &mut Tx,
    scope: &Scope,
    test: &MetatagTest,
    terms: Option<Option<Vec<i64>>>,
    soon: bool,
) -> Result<Option<metatag::Arm>> {
    let terms = match terms {
        Some(terms) => terms,
        None => {
            let sql = metatag::look_up(tx.tenant(), scope, test);
            query(&sql).get_result::<TermsRow>(tx.conn())?.ids
        }
    };
    match metatag::plan(test, terms) {
        Plan::Nothing => Ok(None),
        Plan::Search(arm) => Ok(Some(arm)),
        Plan::Probe(ids) if soon => Ok(Some(metatag::Arm::Soon(ids))),
        Plan::Probe(ids) => probed(tx, scope, ids).map(Some),
    }
}

fn probed(tx: &mut Tx, scope: &Scope, ids: Vec<i64>) -> Result<metatag::Arm> {
    let found = probe(tx, &metatag::probe(tx.tenant(), scope, &ids))?;
    Ok(metatag::Arm::probed(ids, found))
}

/// Files, one more than [`MAX_PROBED`](metatag::MAX_PROBED) at most.
fn probe(tx: &mut Tx, statement: &Sql) -> Result<Vec<Probed>> {
    allow_scans(tx, false)?;
    let rows: Vec<ProbedRow> = query(statement).load(tx.conn())?;
    allow_scans(tx, true)?;
    Ok(rows.into_iter().map(|ProbedRow { id, folder_id, key }| Probed { id, folder_id, key }).collect())
}

/// Where all that match have one of many terms, of which the planner knows nothing, or a name that fits a pattern, their files
/// are probed for.
fn where_arm(
    tx: &mut Tx,
    scope: &Scope,
    filter: &Filter,
    terms: Option<Vec<Option<Vec<i64>>>>,
) -> Result<r#where::Arm> {
    let ids = match terms {
        Some(ids) => ids,
        None => {
            let wanted = r#where::wanted(filter);
            let mut ids = vec![None; wanted.len()];
            if !wanted.is_empty() {
                let sql = r#where::look_up(tx.tenant(), &wanted);
                let rows: Vec<PlacedTermsRow> = query(&sql).load(tx.conn())?;
                rows.into_iter().for_each(|row| ids[row.place as usize] = row.ids);
            }
            ids
        }
    };
    let arm = r#where::Arm::new(filter.clone(), ids);
    let terms = arm.narrowest();
    let statement = match (&terms, arm.pattern()) {
        (Some(terms), _) if terms.len() > metatag::MAX_PLANNED => metatag::probe(tx.tenant(), scope, terms),
        (None, Some(pattern)) => r#where::with_names(tx.tenant(), scope, pattern),
        _ => return Ok(arm),
    };
    let found = probe(tx, &statement)?;
    if found.len() > metatag::MAX_PROBED {
        return Ok(arm);
    }
    let keys: BTreeSet<String> = found.into_iter().map(|file| file.key).collect();
    Ok(arm.among(keys.into_iter().collect()))
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
    #[diesel(sql_type = BigInt)]
    folder_id: i64,
    #[diesel(sql_type = Text)]
    key: String,
    #[diesel(sql_type = SmallInt)]
    bits: i16,
}

#[derive(QueryableByName)]
struct PageRow {
    #[diesel(embed)]
    found: MatchRow,
    #[diesel(embed)]
    head: MaybeHeadRow,
}

/// The first `limit` files after `after` that the arms select, except some, and the heads of the first `heads` of them, with
/// their contents where these are to be read. An arm that looks among the next files alone, and does not fill the page, is
/// replaced by what it stands for.
pub(super) fn page(
    tx: &mut Tx,
    scope: &Scope,
    arms: &mut [Arm],
    frame: (Option<&str>, &[i64], i64),
    heads: (usize, Contents),
) -> Result<(Vec<Match>, HashMap<i64, HeadRow>)> {
    if arms.is_empty() {
        return Ok(Default::default());
    }
    let page = send_page(tx, scope, arms, frame, heads)?;
    if let [Arm::Metatag(arm)] = &mut *arms
        && let metatag::Arm::Soon(ids) = arm
        && (page.0.len() as i64) < frame.2
    {
        let ids = std::mem::take(ids);
        *arm = probed(tx, scope, ids)?;
        return send_page(tx, scope, arms, frame, heads);
    }
    Ok(page)
}

fn send_page(
    tx: &mut Tx,
    scope: &Scope,
    arms: &[Arm],
    (after, except, limit): (Option<&str>, &[i64], i64),
    (heads, contents): (usize, Contents),
) -> Result<(Vec<Match>, HashMap<i64, HeadRow>)> {
    let page = union::page(tx.tenant(), scope, arms, after, except, limit);
    if heads == 0 {
        let rows: Vec<MatchRow> = query(&page).load(tx.conn())?;
        return Ok((rows.into_iter().map(Match::from).collect(), HashMap::new()));
    }
    let statement = union::page_with_heads(page, heads, contents);
    // There is but one way to look through the next files.
    let rows: Vec<PageRow> = match arms {
        [Arm::Metatag(metatag::Arm::Soon(_))] => Kept(query(&statement)).load(tx.conn())?,
        _ => query(&statement).load(tx.conn())?,
    };
    let mut found = Vec::with_capacity(rows.len());
    let mut read = HashMap::with_capacity(heads.min(rows.len()));
    for row in rows {
        read.extend(row.head.of(row.found.id).map(|head| (head.id, head)));
        found.push(row.found.into());
    }
    Ok((found, read))
}

impl From<MatchRow> for Match {
    fn from(MatchRow { id, folder_id, key, bits }: MatchRow) -> Match {
        Match { id, folder_id, key, bits }
    }
}

#[derive(QueryableByName)]
struct BitsRow {
    #[diesel(sql_type = BigInt)]
    id: i64,
    #[diesel(sql_type = SmallInt)]
    bits: i16,
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
    let rows: Vec<BitsRow> = query(&union::matching(tx.tenant(), scope, arms, paths, ids)).load(tx.conn())?;
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
#[derive(Debug, Clone, QueryableByName)]
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
    /// The contents, where they were read along.
    #[diesel(sql_type = Nullable<Binary>)]
    pub data: Option<Vec<u8>>,
}

/// A head that may not be there, but for its number.
#[derive(QueryableByName)]
struct MaybeHeadRow {
    #[diesel(sql_type = Nullable<Text>)]
    path: Option<String>,
    #[diesel(sql_type = Nullable<BigInt>)]
    version: Option<i64>,
    #[diesel(sql_type = Nullable<BigInt>)]
    size: Option<i64>,
    #[diesel(sql_type = Nullable<Binary>)]
    sha256: Option<Vec<u8>>,
    #[diesel(sql_type = Nullable<Text>)]
    media_type: Option<String>,
    #[diesel(sql_type = Nullable<Bool>)]
    is_text: Option<bool>,
    #[diesel(sql_type = Nullable<Text>)]
    authority: Option<String>,
    #[diesel(sql_type = Nullable<Timestamptz>)]
    last_modified: Option<DateTime<Utc>>,
    #[diesel(sql_type = Nullable<Binary>)]
    data: Option<Vec<u8>>,
}

impl MaybeHeadRow {
    /// The head of the file of this number, if it is there.
    fn of(self, id: i64) -> Option<HeadRow> {
        Some(HeadRow {
            id,
            path: self.path?,
            version: self.version?,
            size: self.size?,
            sha256: self.sha256?,
            media_type: self.media_type?,
            is_text: self.is_text?,
            authority: self.authority,
            last_modified: self.last_modified?,
            data: self.data,
        })
    }
}

/// The heads of these files, by number; of those that were deleted or hidden meanwhile there is none.
pub(super) fn heads(tx: &mut Tx, files: &[Match], contents: Contents) -> Result<HashMap<i64, HeadRow>> {
    if files.is_empty() {
        return Ok(HashMap::new());
    }
    let ids: Vec<i64> = files.iter().map(|file| file.id).collect();
    let folders: BTreeSet<i64> = files.iter().map(|file| file.folder_id).collect();
    let folders: Vec<i64> = folders.into_iter().collect();
    let sql = heads::by_number(tx.tenant(), &ids, &folders, contents);
    let rows: Vec<HeadRow> = Kept(query(&sql)).load(tx.conn())?;
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

/// Contents that are in no file's row, by their SHA-256.
pub(super) fn contents(tx: &mut Tx, hashes: &[&[u8]]) -> Result<HashMap<Vec<u8>, Vec<u8>>> {
    if hashes.is_empty() {
        return Ok(HashMap::new());
    }
    let statement = sql_query(
        "select b.sha256, b.data from unnest($2) as asked (sha256) cross join lateral (select * from blobs b \
             where b.tenant_id = $1 and b.sha256 = asked.sha256 limit 1) as b",
    )
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
