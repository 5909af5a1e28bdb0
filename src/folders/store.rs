//! The folders' SQL, and what happens to all that lies below one.

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Bool, Nullable, Text, Timestamptz};
use diesel::{QueryableByName, sql_query};

use crate::db::Tx;
use crate::db::schema::folders;
use crate::error::Result;
use crate::path::{Span, normal_forms};

#[derive(Queryable, Selectable, QueryableByName)]
#[diesel(table_name = folders)]
pub(super) struct FolderRow {
    pub id: i64,
    pub path: String,
    pub authority: Option<String>,
    pub sensitive: bool,
    pub hidden: bool,
    pub created_at: DateTime<Utc>,
}

#[derive(QueryableByName)]
struct PathRow {
    #[diesel(sql_type = Text)]
    path: String,
}

#[derive(QueryableByName)]
struct IdRow {
    #[diesel(sql_type = BigInt)]
    id: i64,
}

/// Folders by path, held against being moved or deleted where `hold` says so.
pub(super) fn find_many(tx: &mut Tx, slate: i64, paths: &[&str], hold: bool) -> Result<Vec<FolderRow>> {
    let lock = if hold { " for key share" } else { "" };
    let rows = sql_query(format!(
        "select d.* from (select path from unnest($3) as asked (path) order by path collate \"C\") as asked \
         cross join lateral (select id, path, authority, sensitive, hidden, created_at from folders d \
             where d.tenant_id = $1 and d.slate_id = $2 and d.path = asked.path limit 1{lock}) as d"
    ))
    .bind::<BigInt, _>(tx.tenant())
    .bind::<BigInt, _>(slate)
    .bind::<Array<Text>, _>(paths)
    .load(tx.conn())?;
    Ok(rows)
}

pub(super) fn find(tx: &mut Tx, slate: i64, path: &str) -> Result<Option<FolderRow>> {
    let row = folders::table
        .filter(folders::tenant_id.eq(tx.tenant()).and(folders::slate_id.eq(slate)))
        .filter(folders::path.eq(path))
        .select(FolderRow::as_select())
        .first(tx.conn())
        .optional()?;
    Ok(row)
}

/// The folder whose path is another spelling of `path`, by Unicode normal form C.
pub(super) fn find_by_nfc(tx: &mut Tx, slate: i64, path: &str) -> Result<Option<FolderRow>> {
    let row = sql_query(
        "select id, path, authority, sensitive, hidden, created_at from folders \
         where tenant_id = $1 and slate_id = $2 and nfc = normalize($3, NFC)",
    )
    .bind::<BigInt, _>(tx.tenant())
    .bind::<BigInt, _>(slate)
    .bind::<Text, _>(path)
    .get_result(tx.conn())
    .optional()?;
    Ok(row)
}

/// Locks folders so that nothing comes into being in them meanwhile.
pub(super) fn lock(tx: &mut Tx, ids: &[i64]) -> Result<()> {
    sql_query("select id from folders where tenant_id = $1 and id = any($2) order by id for update")
        .bind::<BigInt, _>(tx.tenant())
        .bind::<Array<BigInt>, _>(ids)
        .load::<IdRow>(tx.conn())?;
    Ok(())
}

/// Which of these paths, or of their other spellings, a file has.
pub(super) fn files_at(tx: &mut Tx, slate: i64, paths: &[&str]) -> Result<Vec<String>> {
    let rows: Vec<PathRow> = sql_query(
        "select asked.path from unnest($3, $4) as asked (path, nfc) where exists ( \
             select from files f where f.tenant_id = $1 and f.slate_id = $2 and f.path = asked.path) \
         or exists (select from files f where f.tenant_id = $1 and f.slate_id = $2 and f.nfc = asked.nfc)",
    )
    .bind::<BigInt, _>(tx.tenant())
    .bind::<BigInt, _>(slate)
    .bind::<Array<Text>, _>(paths)
    .bind::<Array<Text>, _>(normal_forms(paths))
    .load(tx.conn())?;
    Ok(rows.into_iter().map(|row| row.path).collect())
}

/// Which of these paths differ from a folder's in Unicode normal form alone.
pub(super) fn misspelt(tx: &mut Tx, slate: i64, paths: &[&str]) -> Result<Vec<String>> {
    let rows: Vec<PathRow> = sql_query(
        "select asked.path from unnest($3, $4) as asked (path, nfc) join folders f on f.tenant_id = $1 and f.slate_id = $2 \
             and f.nfc = asked.nfc and f.path <> asked.path",
    )
    .bind::<BigInt, _>(tx.tenant())
    .bind::<BigInt, _>(slate)
    .bind::<Array<Text>, _>(paths)
    .bind::<Array<Text>, _>(normal_forms(paths))
    .load(tx.conn())?;
    Ok(rows.into_iter().map(|row| row.path).collect())
}

/// A folder to make: its path, its name and its parent.
pub(super) struct NewFolder<'a> {
    pub path: &'a str,
    pub name: &'a str,
    pub parent: i64,
}

pub(super) fn insert(
    tx: &mut Tx,
    slate: i64,
    new: &[NewFolder],
    now: DateTime<Utc>,
) -> Result<Vec<FolderRow>> {
    let (mut paths, mut names, mut parents) = (Vec::new(), Vec::new(), Vec::new());
    for folder in new {
        paths.push(folder.path);
        names.push(folder.name);
        parents.push(folder.parent);
    }
    let rows = sql_query(
        "insert into folders (tenant_id, slate_id, path, name, parent_id, created_at, hidden) \
         select $1, $2, new.path, new.name, new.parent, $6, \
                (select p.hidden from folders p where p.tenant_id = $1 and p.id = new.parent) \
                    or coalesce(new.path || '/' ~ s.deny_regex, false) \
         from unnest($3, $4, $5) as new (path, name, parent) join tenant_settings s on s.tenant_id = $1 \
         returning id, path, authority, sensitive, hidden, created_at",
    )
    .bind::<BigInt, _>(tx.tenant())
    .bind::<BigInt, _>(slate)
    .bind::<Array<Text>, _>(paths)
    .bind::<Array<Text>, _>(names)
    .bind::<Array<BigInt>, _>(parents)
    .bind::<Timestamptz, _>(now)
    .load(tx.conn())?;
    Ok(rows)
}

pub(super) fn set(tx: &mut Tx, id: i64, authority: Option<&str>, sensitive: bool) -> Result<()> {
    diesel::update(folders::table.filter(folders::tenant_id.eq(tx.tenant()).and(folders::id.eq(id))))
        .set((folders::authority.eq(authority), folders::sensitive.eq(sensitive)))
        .execute(tx.conn())?;
    Ok(())
}

/// The part of a tree that an operation is about: a folder and all below it.
pub(super) struct Tree<'a> {
    pub slate: i64,
    pub path: &'a str,
    /// The paths of what lies below.
    pub below: Span,
}

impl<'a> Tree<'a> {
    pub fn new(slate: i64, path: &'a str) -> Tree<'a> {
        Tree { slate, path, below: Span::below(path) }
    }
}

#[derive(QueryableByName)]
pub(super) struct Extent {
    #[diesel(sql_type = Bool)]
    pub empty: bool,
    /// Bytes of the longest path below.
    #[diesel(sql_type = BigInt)]
    pub bytes: i64,
    /// Levels of the deepest path below.
    #[diesel(sql_type = BigInt)]
    pub levels: i64,
}

pub(super) fn extent(tx: &mut Tx, tree: &Tree) -> Result<Extent> {
    let row = sql_query(
        "select count(*) = 0 as empty, coalesce(max(octet_length(path)), 0)::bigint as bytes, \
                coalesce(max(array_length(string_to_array(path, '/'), 1)), 0)::bigint as levels \
         from (select path from files where tenant_id = $1 and slate_id = $2 and path >= $3 and ($4 is null or path < $4) \
               union all \
               select path from folders where tenant_id = $1 and slate_id = $2 and path >= $3 and ($4 is null or path < $4)) as below",
    )
    .bind::<BigInt, _>(tx.tenant())
    .bind::<BigInt, _>(tree.slate)
    .bind::<Text, _>(&tree.below.from)
    .bind::<Nullable<Text>, _>(&tree.below.beyond)
    .get_result(tx.conn())?;
    Ok(row)
}

/// Moves a folder, and writes a new version of every file below at its new path. New paths are made in a part of the
/// statement that is materialized: an index is not asked for what is made of a column.
pub(super) fn relocate(tx: &mut Tx, tree: &Tree, to: &NewFolder, now: DateTime<Utc>) -> Result<()> {
    let moved = "$5 || substr(x.path, char_length($6) + 1)";
    let bound = "x.tenant_id = $1 and x.slate_id = $2 and x.path >= $3 and ($4 is null or x.path < $4)";
    let statements = [
        format!("update folders x set path = {moved} where {bound}"),
        format!(
            "with m as materialized (select x.id, x.version, {moved} as path from files x where {bound}) \
             insert into file_versions (tenant_id, slate_id, path, version, file_id, sha256, size, media_type, is_text, \
                                        source_modified_at, source_version, created_at) \
             select v.tenant_id, $2, m.path, greatest(m.version, coalesce((select o.version from file_versions o \
                        where o.tenant_id = $1 and o.slate_id = $2 and o.path = m.path \
                        order by o.version desc limit 1), 0)) + 1, \
                    v.file_id, v.sha256, v.size, v.media_type, v.is_text, v.source_modified_at, v.source_version, $7 \
             from m cross join lateral (select * from file_versions v \
                 where v.tenant_id = $1 and v.file_id = m.id and v.version = m.version limit 1) as v"
        ),
        format!(
            "update files x set path = {moved}, updated_at = $7, (version, modified_at) = ( \
                 select v.version, coalesce(v.source_modified_at, v.created_at) from file_versions v \
                 where v.tenant_id = $1 and v.file_id = x.id order by v.version desc limit 1) where {bound}"
        ),
        format!("update file_tags x set path = {moved} where {bound}"),
    ];
    for statement in statements {
        sql_query(statement)
            .bind::<BigInt, _>(tx.tenant())
            .bind::<BigInt, _>(tree.slate)
            .bind::<Text, _>(&tree.below.from)
            .bind::<Nullable<Text>, _>(&tree.below.beyond)
            .bind::<Text, _>(to.path)
            .bind::<Text, _>(tree.path)
            .bind::<Timestamptz, _>(now)
            .execute(tx.conn())?;
    }
    diesel::update(folders::table)
        .filter(folders::tenant_id.eq(tx.tenant()).and(folders::slate_id.eq(tree.slate)))
        .filter(folders::path.eq(tree.path))
        .set((folders::path.eq(to.path), folders::name.eq(to.name), folders::parent_id.eq(to.parent)))
        .execute(tx.conn())?;
    Ok(())
}

/// Takes all files below out of every listing and query, and gives their numbers. Contents in the rows of the files are kept
/// for their versions, unless they are to be purged, which comes next.
pub(super) fn delete_files(tx: &mut Tx, tree: &Tree, purge: bool, now: DateTime<Utc>) -> Result<Vec<i64>> {
    let below = "tenant_id = $1 and slate_id = $2 and path >= $3 and ($4 is null or path < $4)";
    let rows: Vec<IdRow> = sql_query(format!(
        "with gone as materialized (select id, hidden from files where {below}) \
         update file_ids i set deleted_at = $5, hidden = gone.hidden from gone \
         where i.tenant_id = $1 and i.id = gone.id returning i.id"
    ))
    .bind::<BigInt, _>(tx.tenant())
    .bind::<BigInt, _>(tree.slate)
    .bind::<Text, _>(&tree.below.from)
    .bind::<Nullable<Text>, _>(&tree.below.beyond)
    .bind::<Timestamptz, _>(now)
    .load(tx.conn())?;
    let statements = [
        format!(
            "insert into blobs (tenant_id, sha256, data) select distinct on (sha256) tenant_id, sha256, data from files \
             where {below} and data is not null order by sha256 on conflict do nothing"
        ),
        format!("delete from file_tags where {below}"),
        format!("delete from files where {below}"),
    ];
    for statement in statements.iter().skip(usize::from(purge)) {
        sql_query(statement)
            .bind::<BigInt, _>(tx.tenant())
            .bind::<BigInt, _>(tree.slate)
            .bind::<Text, _>(&tree.below.from)
            .bind::<Nullable<Text>, _>(&tree.below.beyond)
            .execute(tx.conn())?;
    }
    Ok(rows.into_iter().map(|row| row.id).collect())
}

/// Deletes a folder and those below it, from which all files have gone.
pub(super) fn delete(tx: &mut Tx, tree: &Tree) -> Result<()> {
    sql_query(
        "delete from folders where tenant_id = $1 and slate_id = $2 \
         and (path = $5 or path >= $3 and ($4 is null or path < $4))",
    )
    .bind::<BigInt, _>(tx.tenant())
    .bind::<BigInt, _>(tree.slate)
    .bind::<Text, _>(&tree.below.from)
    .bind::<Nullable<Text>, _>(&tree.below.beyond)
    .bind::<Text, _>(tree.path)
    .execute(tx.conn())?;
    Ok(())
}

/// Scrubs the bytes of all versions of these files, where nothing else keeps them.
pub(super) fn purge(tx: &mut Tx, files: &[i64]) -> Result<()> {
    sql_query(
        "select purge_versions($1, array_agg(file_id), array_agg(version)) from file_versions \
         where tenant_id = $1 and file_id = any($2)",
    )
    .bind::<BigInt, _>(tx.tenant())
    .bind::<Array<BigInt>, _>(files)
    .execute(tx.conn())?;
    Ok(())
}

/// Sets `hidden` anew of a folder and of all below it, from the top down: a folder is hidden where the one above is, where it
/// is marked, or where the tenant's globs deny it.
pub(super) fn rehide(tx: &mut Tx, tree: &Tree) -> Result<()> {
    let statements = [
        "with recursive s as materialized (select deny_regex from tenant_settings where tenant_id = $1), \
         down as ( \
             select f.id, coalesce(above.hidden, false) or f.sensitive \
                    or coalesce(f.path || '/' ~ (select deny_regex from s), false) as hidden \
             from folders f left join folders above on above.tenant_id = $1 and above.id = f.parent_id \
             where f.tenant_id = $1 and f.slate_id = $2 and f.path = $5 and $3 is not null and coalesce($4, '') is not null \
             union all \
             select f.id, down.hidden or f.sensitive or coalesce(f.path || '/' ~ (select deny_regex from s), false) \
             from down join folders f on f.tenant_id = $1 and f.parent_id = down.id) \
         update folders f set hidden = down.hidden from down \
         where f.tenant_id = $1 and f.id = down.id and f.hidden <> down.hidden",
        "update files f set hidden = not f.hidden from folders d, tenant_settings s \
         where f.tenant_id = $1 and f.slate_id = $2 and f.path >= $3 and ($4 is null or f.path < $4) and $5 is not null \
           and d.tenant_id = $1 and d.id = f.folder_id and s.tenant_id = $1 \
           and (f.sensitive or d.hidden or coalesce(f.path ~ s.deny_regex, false)) <> f.hidden",
        "with f as materialized (select folder_id, name, hidden from files where tenant_id = $1 \
             and slate_id = $2 and path >= $3 and ($4 is null or path < $4) and $5 is not null) \
         update file_tags t set hidden = f.hidden from f \
         where t.tenant_id = $1 and t.folder_id = f.folder_id and t.name = f.name and t.hidden <> f.hidden",
    ];
    for statement in statements {
        sql_query(statement)
            .bind::<BigInt, _>(tx.tenant())
            .bind::<BigInt, _>(tree.slate)
            .bind::<Text, _>(&tree.below.from)
            .bind::<Nullable<Text>, _>(&tree.below.beyond)
            .bind::<Text, _>(tree.path)
            .execute(tx.conn())?;
    }
    Ok(())
}

#[derive(QueryableByName)]
pub(super) struct EntryRow {
    #[diesel(sql_type = Text)]
    pub name: String,
    /// Null where it was not counted to the end.
    #[diesel(sql_type = Nullable<BigInt>)]
    pub size: Option<i64>,
}

/// What lies directly in the folder `here`, in the byte order of what an index prints. Two ordered scans are merged; the
/// sum of a folder stops counting past `$6` files. The bounds of what lies below one are columns that are made beforehand,
/// and null for a file: what an index is to find must be a plain column.
const INDEX: &str = "entries as materialized ( \
         (select f.name, f.size, null::text as first, null::text as beyond from files f \
           where f.tenant_id = $1 and f.folder_id = (select id from here) and not f.hidden \
             and ($4 is null or f.name > $4) order by f.name limit $5) \
         union all \
         (select d.entry, null, d.path || '/', d.path || '0' from folders d \
           where d.tenant_id = $1 and d.parent_id = (select id from here) and not d.hidden \
             and ($4 is null or d.entry > $4) order by d.entry limit $5) \
         order by 1 limit $5), \
     sized as (select e.name, case when e.first is null then e.size else s.size end as size from entries e \
         left join lateral ( \
             select case when count(*) <= $6 then coalesce(sum(b.size), 0)::bigint end as size \
             from (select f.size from files f where f.tenant_id = $1 and f.slate_id = (select slate_id from here) \
                      and f.path >= e.first and f.path < e.beyond and not f.hidden limit $6 + 1) as b) as s on true) ";

fn load_index<T: QueryableByName<diesel::pg::Pg> + 'static>(
    tx: &mut Tx,
    statement: &str,
    (slate, folder): (i64, i64),
    after: Option<&str>,
    limit: i64,
    exact: i64,
) -> Result<Vec<T>> {
    let rows = sql_query(format!(
        "{statement} with here as materialized (select $2 as slate_id, $3 as id), {INDEX} \
         select name, size from sized order by name"
    ))
    .bind::<BigInt, _>(tx.tenant())
    .bind::<BigInt, _>(slate)
    .bind::<BigInt, _>(folder)
    .bind::<Nullable<Text>, _>(after)
    .bind::<BigInt, _>(limit)
    .bind::<BigInt, _>(exact)
    .load(tx.conn())?;
    Ok(rows)
}

/// A page of what lies directly in a folder: that after `after`, at most `limit`.
pub(super) fn index(
    tx: &mut Tx,
    slate: i64,
    folder: i64,
    after: Option<&str>,
    limit: i64,
    exact: i64,
) -> Result<Vec<EntryRow>> {
    load_index(tx, "", (slate, folder), after, limit, exact)
}

#[derive(QueryableByName)]
struct PlacedEntryRow {
    #[diesel(sql_type = Text)]
    path: String,
    #[diesel(sql_type = Nullable<Text>)]
    name: Option<String>,
    #[diesel(sql_type = Nullable<BigInt>)]
    size: Option<i64>,
}

/// The same of the folder at this very path, found in the same statement, unless it is hidden or not there: its path and
/// the page.
pub(super) fn index_at(
    tx: &mut Tx,
    slate: &str,
    path: &str,
    after: Option<&str>,
    limit: i64,
    exact: i64,
) -> Result<Option<(String, Vec<EntryRow>)>> {
    let rows: Vec<PlacedEntryRow> = sql_query(format!(
        "with here as materialized (select d.slate_id, d.id, d.path from slates s \
             join folders d on d.tenant_id = $1 and d.slate_id = s.id and d.path = $3 and not d.hidden \
             where s.tenant_id = $1 and s.name = $2 and s.deleted_at is null), {INDEX} \
         select here.path, e.name, e.size from here left join sized e on true order by e.name"
    ))
    .bind::<BigInt, _>(tx.tenant())
    .bind::<Text, _>(slate)
    .bind::<Text, _>(path)
    .bind::<Nullable<Text>, _>(after)
    .bind::<BigInt, _>(limit)
    .bind::<BigInt, _>(exact)
    .load(tx.conn())?;
    let found = rows.first().map(|row| row.path.clone());
    let entries = rows.into_iter().filter_map(|row| Some(EntryRow { name: row.name?, size: row.size }));
    Ok(found.map(|path| (path, entries.collect())))
}

#[derive(QueryableByName)]
struct PlanRow {
    #[diesel(sql_type = diesel::sql_types::Json, column_name = "QUERY PLAN")]
    plan: serde_json::Value,
}

/// How Postgres makes a page of an index: the JSON of `explain (analyze, buffers)`.
pub(super) fn explain_index(
    tx: &mut Tx,
    slate: i64,
    folder: i64,
    after: Option<&str>,
    limit: i64,
    exact: i64,
) -> Result<Vec<serde_json::Value>> {
    let explain = "explain (analyze, buffers, format json)";
    let rows: Vec<PlanRow> = load_index(tx, explain, (slate, folder), after, limit, exact)?;
    Ok(rows.into_iter().map(|row| row.plan).collect())
}
