//! The passages' SQL.

use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Binary, Bool, Double, Integer, Nullable, Text};
use diesel::{QueryableByName, sql_query};

use super::terms::{Counted, MAX_PASSAGES, MAX_WORDS, Plan, query};
use crate::db::Tx;
use crate::error::Result;
use crate::path::Span;

/// Text as it is split into words: `a/b` and `a-1` would be one word each, a file's name and a number.
fn split(text: &str) -> String {
    format!("translate({text}, '-/', '  ')")
}

/// The words of a passage in the language `$n`, by where they stand: the title weighs most in the first passage of its
/// document, which it is the title of before all others, then come headings.
fn tsv(language: &str) -> String {
    let vector = |text: &str| format!("to_tsvector({language}::regconfig, {})", split(text));
    format!(
        "setweight({}, case position when 1 then 'A' else 'B' end::\"char\") || setweight({}, 'C') || {}",
        vector("title"),
        vector("heading"),
        vector("text")
    )
}

#[derive(QueryableByName)]
struct FlagRow {
    #[diesel(sql_type = Bool)]
    flag: bool,
}

/// Whether the database has a text-search configuration of this name.
pub(super) fn knows_language(tx: &mut Tx, language: &str) -> Result<bool> {
    let row: FlagRow = sql_query(
        "select exists (select from pg_ts_config where cfgname = $1::text::name and pg_ts_config_is_visible(oid)) as flag",
    )
    .bind::<Text, _>(language)
    .get_result(tx.conn())?;
    Ok(row.flag)
}

/// Holds the tenant's roots: alone, or so that nobody else holds them alone.
pub(super) fn hold_roots(tx: &mut Tx, alone: bool) -> Result<()> {
    let lock = if alone { "update" } else { "share" };
    sql_query(format!("select true as flag from tenant_settings where tenant_id = $1 for {lock}"))
        .bind::<BigInt, _>(tx.tenant())
        .load::<FlagRow>(tx.conn())?;
    Ok(())
}

/// A folder whose files have passages.
#[derive(Debug, Clone, QueryableByName)]
pub(super) struct Root {
    #[diesel(sql_type = BigInt)]
    pub id: i64,
    #[diesel(sql_type = Text)]
    pub path: String,
}

/// The roots in the slate of this name.
pub(super) fn roots(tx: &mut Tx, slate: &str) -> Result<Vec<Root>> {
    let rows =
        sql_query("select id, path from passage_roots where tenant_id = $1 and slate = $2 order by path")
            .bind::<BigInt, _>(tx.tenant())
            .bind::<Text, _>(slate)
            .load(tx.conn())?;
    Ok(rows)
}

/// Makes these folders roots.
pub(super) fn insert_roots(tx: &mut Tx, slate: &str, paths: &[&str]) -> Result<()> {
    sql_query("insert into passage_roots (tenant_id, slate, path) select $1, $2, path from unnest($3) as new (path)")
        .bind::<BigInt, _>(tx.tenant())
        .bind::<Text, _>(slate)
        .bind::<Array<Text>, _>(paths)
        .execute(tx.conn())?;
    Ok(())
}

/// Deletes roots, and their passages.
pub(super) fn delete_roots(tx: &mut Tx, ids: &[i64]) -> Result<()> {
    for statement in [
        "delete from passages where tenant_id = $1 and root_id = any($2)",
        "delete from passage_roots where tenant_id = $1 and id = any($2)",
    ] {
        sql_query(statement)
            .bind::<BigInt, _>(tx.tenant())
            .bind::<Array<BigInt>, _>(ids)
            .execute(tx.conn())?;
    }
    Ok(())
}

/// Deletes the passages of these files.
pub(super) fn delete_of(tx: &mut Tx, files: &[i64]) -> Result<()> {
    sql_query("delete from passages where tenant_id = $1 and file_id = any($2)")
        .bind::<BigInt, _>(tx.tenant())
        .bind::<Array<BigInt>, _>(files)
        .execute(tx.conn())?;
    Ok(())
}

/// A passage to be stored.
pub(super) struct Row<'a> {
    pub root: i64,
    pub file: i64,
    pub position: i32,
    pub path: &'a str,
    pub title: &'a str,
    pub heading: &'a str,
    pub text: &'a str,
    pub lines: (u32, u32),
}

/// Stores passages, whose words are those of a language.
pub(super) fn insert(tx: &mut Tx, language: &str, rows: &[Row]) -> Result<()> {
    fn column<'a, T>(rows: &'a [Row], of: impl Fn(&'a Row<'a>) -> T) -> Vec<T> {
        rows.iter().map(of).collect()
    }
    sql_query(format!(
        "insert into passages (tenant_id, root_id, file_id, position, path, title, heading, text, first_line, \
                               last_line, tsv) \
         select $1, new.*, {} from unnest($3, $4, $5, $6, $7, $8, $9, $10, $11) \
             as new (root, file, position, path, title, heading, text, first_line, last_line)",
        tsv("$2")
    ))
    .bind::<BigInt, _>(tx.tenant())
    .bind::<Text, _>(language)
    .bind::<Array<BigInt>, _>(column(rows, |row| row.root))
    .bind::<Array<BigInt>, _>(column(rows, |row| row.file))
    .bind::<Array<Integer>, _>(column(rows, |row| row.position))
    .bind::<Array<Text>, _>(column(rows, |row| row.path))
    .bind::<Array<Text>, _>(column(rows, |row| row.title))
    .bind::<Array<Text>, _>(column(rows, |row| row.heading))
    .bind::<Array<Text>, _>(column(rows, |row| row.text))
    .bind::<Array<Integer>, _>(column(rows, |row| row.lines.0 as i32))
    .bind::<Array<Integer>, _>(column(rows, |row| row.lines.1 as i32))
    .execute(tx.conn())?;
    Ok(())
}

/// Splits the slate's passages into words anew.
pub(super) fn split_anew(tx: &mut Tx, slate: &str, language: &str) -> Result<()> {
    sql_query(format!(
        "update passages set tsv = {} where tenant_id = $1 \
         and root_id in (select id from passage_roots where tenant_id = $1 and slate = $3)",
        tsv("$2")
    ))
    .bind::<BigInt, _>(tx.tenant())
    .bind::<Text, _>(language)
    .bind::<Text, _>(slate)
    .execute(tx.conn())?;
    Ok(())
}

/// Has the planner know of many passages at once; it would walk through all of a root otherwise until it learns of them
/// by itself.
pub(super) fn analyze(tx: &mut Tx) -> Result<()> {
    sql_query("select analyze_passages()").execute(tx.conn())?;
    Ok(())
}

/// A slate that has roots.
#[derive(QueryableByName)]
pub(super) struct SlateRow {
    #[diesel(sql_type = BigInt)]
    pub id: i64,
    #[diesel(sql_type = Text)]
    pub name: String,
    #[diesel(sql_type = Text)]
    pub language: String,
}

/// The slates that have roots.
pub(super) fn slates(tx: &mut Tx) -> Result<Vec<SlateRow>> {
    let rows = sql_query(
        "select id, name, language from slates s where tenant_id = $1 and deleted_at is null \
         and exists (select from passage_roots r where r.tenant_id = $1 and r.slate = s.name) order by id",
    )
    .bind::<BigInt, _>(tx.tenant())
    .load(tx.conn())?;
    Ok(rows)
}

/// Has passages of a root whose paths were in `span` say where their files are now.
pub(super) fn move_along(tx: &mut Tx, root: &Root, span: &Span) -> Result<()> {
    sql_query(
        "update passages p set path = f.path from files f \
         where p.tenant_id = $1 and p.root_id = $2 and p.path >= $3 and ($4 is null or p.path < $4) \
           and f.tenant_id = $1 and f.id = p.file_id and f.path <> p.path",
    )
    .bind::<BigInt, _>(tx.tenant())
    .bind::<BigInt, _>(root.id)
    .bind::<Text, _>(&span.from)
    .bind::<Nullable<Text>, _>(&span.beyond)
    .execute(tx.conn())?;
    Ok(())
}

/// Deletes the passages of a root whose paths are in `span` and whose files are to have none any more: they are hidden, no
/// text, or not below the root.
pub(super) fn drop_stale(tx: &mut Tx, root: &Root, span: &Span) -> Result<()> {
    let below = Span::below(&root.path);
    sql_query(
        "delete from passages p where p.tenant_id = $1 and p.root_id = $2 and p.path >= $3 and ($4 is null or p.path < $4) \
         and (p.path < $5 or $6 is not null and p.path >= $6 \
              or (select f.hidden or not f.is_text from files f where f.tenant_id = $1 and f.id = p.file_id))",
    )
    .bind::<BigInt, _>(tx.tenant())
    .bind::<BigInt, _>(root.id)
    .bind::<Text, _>(&span.from)
    .bind::<Nullable<Text>, _>(&span.beyond)
    .bind::<Text, _>(below.from)
    .bind::<Nullable<Text>, _>(below.beyond)
    .execute(tx.conn())?;
    Ok(())
}

/// A file that is to have passages below a root, and has none.
#[derive(QueryableByName)]
pub(super) struct Missing {
    #[diesel(sql_type = BigInt)]
    pub file_id: i64,
    #[diesel(sql_type = Text)]
    pub path: String,
    #[diesel(sql_type = Text)]
    pub media_type: String,
    #[diesel(sql_type = BigInt)]
    pub size: i64,
    #[diesel(sql_type = Binary)]
    pub sha256: Vec<u8>,
    /// The contents, where they are in the row.
    #[diesel(sql_type = Nullable<Binary>)]
    pub data: Option<Vec<u8>>,
}

/// Files of a slate with paths in `span` that are to have passages of a root and have none, in order, at most `limit`; only
/// `files`, where they are given. Whether a file has passages is looked up by the file: by the root, all would be read.
pub(super) fn missing(
    tx: &mut Tx,
    slate: i64,
    root: i64,
    files: Option<&[i64]>,
    span: &Span,
    limit: i64,
) -> Result<Vec<Missing>> {
    let from = match files {
        Some(_) => "(select * from files where tenant_id = $1 and id = any($5) offset 0)",
        None => "files",
    };
    let rows = sql_query(format!(
        "select f.id as file_id, f.path, f.media_type, f.size, f.sha256, f.data from {from} f \
         where f.tenant_id = $1 and f.slate_id = $2 and f.path >= $3 and ($4 is null or f.path < $4) \
           and f.is_text and not f.hidden and f.size > 0 and ($5 is null or f.id = any($5)) \
           and $6 <> all(array(select p.root_id from passages p where p.tenant_id = $1 and p.file_id = f.id)) \
         order by f.path limit $7"
    ))
    .bind::<BigInt, _>(tx.tenant())
    .bind::<BigInt, _>(slate)
    .bind::<Text, _>(&span.from)
    .bind::<Nullable<Text>, _>(&span.beyond)
    .bind::<Nullable<Array<BigInt>>, _>(files)
    .bind::<BigInt, _>(root)
    .bind::<BigInt, _>(limit)
    .load(tx.conn())?;
    Ok(rows)
}

#[derive(QueryableByName)]
struct BlobRow {
    #[diesel(sql_type = Binary)]
    sha256: Vec<u8>,
    #[diesel(sql_type = Binary)]
    data: Vec<u8>,
}

/// The contents of these hashes.
pub(super) fn contents(tx: &mut Tx, hashes: &[&[u8]]) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let rows: Vec<BlobRow> = sql_query(
        "select b.sha256, b.data from unnest($2) as asked (sha256) cross join lateral (select * from blobs b \
             where b.tenant_id = $1 and b.sha256 = asked.sha256 limit 1) as b",
    )
    .bind::<BigInt, _>(tx.tenant())
    .bind::<Array<Binary>, _>(hashes)
    .load(tx.conn())?;
    Ok(rows.into_iter().map(|row| (row.sha256, row.data)).collect())
}

#[derive(QueryableByName)]
struct RootRow {
    #[diesel(sql_type = Nullable<BigInt>)]
    id: Option<i64>,
}

/// The roots at these places, a slate's name and a path each; none where there is no root.
pub(super) fn roots_at(tx: &mut Tx, slates: &[&str], paths: &[&str]) -> Result<Vec<Option<i64>>> {
    let rows: Vec<RootRow> = sql_query(
        "select r.id from unnest($2, $3) with ordinality as asked (slate, path, n) \
         left join passage_roots r on r.tenant_id = $1 and r.slate = asked.slate and r.path = asked.path order by asked.n",
    )
    .bind::<BigInt, _>(tx.tenant())
    .bind::<Array<Text>, _>(slates)
    .bind::<Array<Text>, _>(paths)
    .load(tx.conn())?;
    Ok(rows.into_iter().map(|row| row.id).collect())
}

#[derive(QueryableByName)]
struct WordRow {
    #[diesel(sql_type = BigInt)]
    n: i64,
    #[diesel(sql_type = Text)]
    lexeme: String,
}

/// The words of a text in each of these languages, in the order in which they come first.
pub(super) fn words(tx: &mut Tx, languages: &[&str], text: &str) -> Result<Vec<Vec<String>>> {
    let rows: Vec<WordRow> = sql_query(format!(
        "select l.n, w.lexeme from unnest($1) with ordinality as l (language, n) cross join lateral ( \
             select lexeme, positions[1] as place from unnest(to_tsvector(l.language::regconfig, {})) \
             order by positions[1], lexeme limit $3) as w order by l.n, w.place, w.lexeme",
        split("$2")
    ))
    .bind::<Array<Text>, _>(languages)
    .bind::<Text, _>(text)
    .bind::<BigInt, _>(MAX_WORDS as i64)
    .load(tx.conn())?;
    let mut words = vec![Vec::new(); languages.len()];
    rows.into_iter().for_each(|row| words[row.n as usize - 1].push(row.lexeme));
    Ok(words)
}

#[derive(QueryableByName)]
struct CountRow {
    #[diesel(sql_type = BigInt)]
    passages: i64,
}

/// How many passages each root has, counted up to [`MAX_PASSAGES`].
pub(super) fn count(tx: &mut Tx, roots: &[i64]) -> Result<Vec<i64>> {
    let rows: Vec<CountRow> = sql_query(format!(
        "select c.passages from unnest($2) with ordinality as root (id, n) cross join lateral ( \
             select count(*) as passages from (select from search_passages p \
                 where p.tenant_id = $1 and p.root_id = root.id limit {MAX_PASSAGES}) as few) as c order by root.n"
    ))
    .bind::<BigInt, _>(tx.tenant())
    .bind::<Array<BigInt>, _>(roots)
    .load(tx.conn())?;
    Ok(rows.into_iter().map(|row| row.passages).collect())
}

/// Words that are counted in a root, up to a ceiling.
pub(super) struct ToCount {
    pub root: i64,
    pub words: Vec<String>,
    pub ceiling: i64,
}

/// How many passages of its root hold each word.
pub(super) fn count_each(tx: &mut Tx, all: Vec<ToCount>) -> Result<Vec<Vec<Counted>>> {
    let (mut roots, mut queries, mut ceilings) = (Vec::new(), Vec::new(), Vec::new());
    for ToCount { root, words, ceiling } in &all {
        roots.extend(words.iter().map(|_| *root));
        queries.extend(words.iter().map(|word| query(word)));
        ceilings.extend(words.iter().map(|_| *ceiling));
    }
    let rows: Vec<CountRow> = sql_query(
        "with word as materialized (select root, query::tsquery as query, ceiling, n \
             from unnest($2, $3, $4) with ordinality as word (root, query, ceiling, n)) \
         select c.passages from word cross join lateral \
             (select count(*) as passages from (select from search_passages p \
                 where p.tenant_id = $1 and p.root_id = word.root and p.tsv @@ word.query limit word.ceiling) as few) as c \
         order by word.n",
    )
    .bind::<BigInt, _>(tx.tenant())
    .bind::<Array<BigInt>, _>(roots)
    .bind::<Array<Text>, _>(queries)
    .bind::<Array<BigInt>, _>(ceilings)
    .load(tx.conn())?;
    let mut rows = rows.into_iter();
    let counted = |lexeme, row: CountRow| Counted { lexeme, passages: row.passages };
    let of_root =
        |all: ToCount| all.words.into_iter().zip(rows.by_ref()).map(|(w, row)| counted(w, row)).collect();
    Ok(all.into_iter().map(of_root).collect())
}

/// A passage that was found, and the version that it is of.
#[derive(Debug, Clone, QueryableByName)]
pub(super) struct HitRow {
    #[diesel(sql_type = BigInt)]
    pub file_id: i64,
    #[diesel(sql_type = Integer)]
    pub position: i32,
    #[diesel(sql_type = Text)]
    pub path: String,
    #[diesel(sql_type = Text)]
    pub text: String,
    #[diesel(sql_type = Integer)]
    pub first_line: i32,
    #[diesel(sql_type = Integer)]
    pub last_line: i32,
    #[diesel(sql_type = Double)]
    pub score: f64,
    #[diesel(sql_type = BigInt)]
    pub version: i64,
    #[diesel(sql_type = BigInt)]
    pub size: i64,
    #[diesel(sql_type = Binary)]
    pub sha256: Vec<u8>,
    #[diesel(sql_type = Nullable<Text>)]
    pub authority: Option<String>,
    #[diesel(sql_type = diesel::sql_types::Timestamptz)]
    pub last_modified: chrono::DateTime<chrono::Utc>,
}

/// The passages of the best keys, with their files. A hidden file has no passages; it is looked at all the same.
const HITS: &str = "select p.file_id, p.position, p.path, p.text, p.first_line, p.last_line, best.score, \
        f.version, f.size, f.sha256, coalesce(f.authority, above.authority) as authority, f.modified_at as last_modified \
    from best \
    join passages p on p.tenant_id = $1 and p.root_id = $2 and p.file_id = best.file_id and p.position = best.position \
    join files f on f.tenant_id = $1 and f.id = p.file_id and not f.hidden \
    left join lateral (with recursive up as ( \
            select d.parent_id, d.authority from folders d where d.tenant_id = $1 and d.id = f.folder_id \
            union all \
            select o.parent_id, o.authority from up join folders o on o.tenant_id = $1 and o.id = up.parent_id \
            where up.authority is null) \
        select authority from up where authority is not null limit 1) as above on true \
    order by best.score desc, p.path, p.position";

/// How soon a word's rank saturates: at this rank it counts for half of its share. A word in the text ranks 0.1 each time, in a
/// heading 0.2, in the title 0.4, and in the title of a document's first passage 1.
const HALF: f64 = 0.3;

/// How many passages are looked at where nearly all hold the words.
const BOUND: i64 = MAX_PASSAGES;

/// The best passages for a plan: by score, then by path and position.
pub(super) fn search(tx: &mut Tx, root: i64, plan: &Plan, limit: i64) -> Result<Vec<HitRow>> {
    let (queries, shares): (Vec<String>, Vec<f64>) =
        plan.words.iter().map(|(word, share)| (query(word), *share)).unzip();
    let passages = match plan.bounded {
        false => "search_passages".to_owned(),
        true => format!(
            "(select * from search_passages where tenant_id = $1 and root_id = $2 order by path, position limit {BOUND})"
        ),
    };
    let rows = sql_query(format!(
        "with words as materialized (select query::tsquery, share from unnest($5, $6) as word (query, share)), \
         found as materialized (select p.file_id, p.position, p.path, \
                 (select sum(share * rank / (rank + {HALF})) * sum(share) \
                  from (select share, ts_rank_cd(p.tsv, query)::float8 as rank from words where p.tsv @@ query) as ranked) \
                     as score \
             from {passages} p where p.tenant_id = $1 and p.root_id = $2 and p.tsv @@ $3::tsquery), \
         best as (select file_id, position, score from found order by score desc, path, position limit $4) {HITS}"
    ))
    .bind::<BigInt, _>(tx.tenant())
    .bind::<BigInt, _>(root)
    .bind::<Text, _>(queries.join(" | "))
    .bind::<BigInt, _>(limit)
    .bind::<Array<Text>, _>(&queries)
    .bind::<Array<Double>, _>(shares)
    .load(tx.conn())?;
    Ok(rows)
}

/// The first passages of a root, by path and position.
pub(super) fn first(tx: &mut Tx, root: i64, limit: i64) -> Result<Vec<HitRow>> {
    let rows = sql_query(format!(
        "with best as materialized (select file_id, position, 0::float8 as score from passages \
             where tenant_id = $1 and root_id = $2 order by path, position limit $3) {HITS}"
    ))
    .bind::<BigInt, _>(tx.tenant())
    .bind::<BigInt, _>(root)
    .bind::<BigInt, _>(limit)
    .load(tx.conn())?;
    Ok(rows)
}
