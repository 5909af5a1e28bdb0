//! The SQL of retrieving files by (slate, path, version), and of looking for quotes.

pub(super) mod registry;

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Binary, Bool, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use diesel::{QueryableByName, sql_query};
use uuid::Uuid;

use crate::db::Tx;
use crate::error::Result;

/// Which version of a path.
#[derive(Debug, Clone, Copy)]
pub(super) enum Which<'a> {
    /// The head of the file that is there now.
    Head,
    /// The same by another spelling of its characters.
    HeadByNfc,
    /// The one of this number.
    Number(i64),
    /// The newest of which the writer said that the source calls it this.
    Named(&'a str),
}

/// A version of a file, and what is known of it.
#[derive(Debug, QueryableByName)]
pub(super) struct VersionRow {
    /// The file's number.
    #[diesel(sql_type = BigInt)]
    pub file_id: i64,
    /// The version's number.
    #[diesel(sql_type = BigInt)]
    pub version: i64,
    /// Its path.
    #[diesel(sql_type = Text)]
    pub path: String,
    /// Bytes of the contents.
    #[diesel(sql_type = BigInt)]
    pub size: i64,
    /// SHA-256 of the contents.
    #[diesel(sql_type = Binary)]
    pub sha256: Vec<u8>,
    /// Their media type.
    #[diesel(sql_type = Text)]
    pub media_type: String,
    /// UTF-8 without U+0000.
    #[diesel(sql_type = Bool)]
    pub is_text: bool,
    /// When it was written.
    #[diesel(sql_type = Timestamptz)]
    pub created_at: DateTime<Utc>,
    /// When the source was last modified, as the writer said.
    #[diesel(sql_type = Nullable<Timestamptz>)]
    pub source_modified_at: Option<DateTime<Utc>>,
    /// The source's own version, as the writer said.
    #[diesel(sql_type = Nullable<Text>)]
    pub source_version: Option<String>,
    /// The bytes are no longer kept.
    #[diesel(sql_type = Bool)]
    pub gone: bool,
    /// It may not be read.
    #[diesel(sql_type = Bool)]
    pub hidden: bool,
    /// Of the file or the nearest folder that says so.
    #[diesel(sql_type = Nullable<Text>)]
    pub authority: Option<String>,
}

/// The version of a path in a slate. `horizon`: what was deleted before it is gone.
pub(super) fn version(
    tx: &mut Tx,
    slate: i64,
    path: &str,
    which: Which<'_>,
    horizon: DateTime<Utc>,
) -> Result<Option<VersionRow>> {
    let head = |test: &str| {
        format!(
            "(v.file_id, v.version) = (select id, version from files where tenant_id = $1 and slate_id = $2 and {test})"
        )
    };
    let (test, number, name) = match which {
        Which::Head => (head("path = $3"), 0, ""),
        Which::HeadByNfc => (head("nfc = normalize($3, NFC)"), 0, ""),
        Which::Number(number) => ("v.path = $3 and v.version = $5".into(), number, ""),
        Which::Named(name) => ("v.path = $3 and v.source_version = $6".into(), 0, name),
    };
    Ok(sql_query(format!(
        "with recursive hit as materialized (
             select v.*, f.folder_id, f.authority,
                    (v.purged_at is not null or coalesce(i.deleted_at < $4, false)) as gone,
                    coalesce(f.hidden, i.hidden) or coalesce(v.path ~ s.deny_regex, false) as hidden
             from file_versions v join file_ids i on i.tenant_id = $1 and i.id = v.file_id
             join tenant_settings s on s.tenant_id = $1
             left join files f on f.tenant_id = $1 and f.id = v.file_id
             where v.tenant_id = $1 and v.slate_id = $2 and $5 >= 0 and $6 is not null and {test}
             order by v.version desc limit 1),
         chain as (
             select o.parent_id, o.authority, 0 as up
             from hit join folders o on o.tenant_id = $1 and o.id = hit.folder_id where hit.authority is null
             union all
             select o.parent_id, o.authority, c.up + 1
             from chain c join folders o on o.tenant_id = $1 and o.id = c.parent_id where c.authority is null)
         select file_id, version, path, size, sha256, media_type, is_text, created_at, source_modified_at, source_version,
                gone, hidden,
                coalesce(hit.authority, (select c.authority from chain c where c.authority is not null)) as authority
         from hit"
    ))
    .bind::<BigInt, _>(tx.tenant())
    .bind::<BigInt, _>(slate)
    .bind::<Text, _>(path)
    .bind::<Timestamptz, _>(horizon)
    .bind::<BigInt, _>(number)
    .bind::<Text, _>(name)
    .get_result(tx.conn())
    .optional()?)
}

#[derive(QueryableByName)]
struct Held {
    #[diesel(sql_type = Bool)]
    held: bool,
}

/// Whether a path, though there is nothing at it, is kept from readers: by the tenant's globs, or below a folder that is.
/// `above` are the paths of the folders that it would lie in.
pub(super) fn is_denied(tx: &mut Tx, slate: i64, path: &str, above: &[String]) -> Result<bool> {
    let row: Held = sql_query(
        "select coalesce($3 ~ s.deny_regex, false)
             or exists (select from folders where tenant_id = $1 and slate_id = $2 and path = any($4) and hidden) as held
         from tenant_settings s where s.tenant_id = $1",
    )
    .bind::<BigInt, _>(tx.tenant())
    .bind::<BigInt, _>(slate)
    .bind::<Text, _>(path)
    .bind::<Array<Text>, _>(above)
    .get_result(tx.conn())?;
    Ok(row.held)
}

#[derive(QueryableByName)]
struct PathRow {
    #[diesel(sql_type = Text)]
    path: String,
}

/// Paths of files of a slate that have this name, at most `limit`.
pub(super) fn of_name(tx: &mut Tx, slate: i64, name: &str, limit: i64) -> Result<Vec<String>> {
    let rows: Vec<PathRow> = sql_query(
        "select path from files where tenant_id = $1 and slate_id = $2 and name = $3 and not hidden order by path limit $4",
    )
    .bind::<BigInt, _>(tx.tenant())
    .bind::<BigInt, _>(slate)
    .bind::<Text, _>(name)
    .bind::<BigInt, _>(limit)
    .load(tx.conn())?;
    Ok(rows.into_iter().map(|row| row.path).collect())
}

#[derive(QueryableByName)]
struct DefaultRow {
    #[diesel(sql_type = Nullable<Text>)]
    default_slate: Option<String>,
}

/// The name of the tenant's default slate.
pub(super) fn default_slate(tx: &mut Tx) -> Result<Option<String>> {
    let row: DefaultRow = sql_query("select default_slate from tenant_settings where tenant_id = $1")
        .bind::<BigInt, _>(tx.tenant())
        .get_result(tx.conn())?;
    Ok(row.default_slate)
}

/// A version in which a quote stands.
#[derive(Debug, QueryableByName)]
pub(super) struct QuotedRow {
    /// The slate's name.
    #[diesel(sql_type = Text)]
    pub slate: String,
    /// The version's path.
    #[diesel(sql_type = Text)]
    pub path: String,
    /// Its number.
    #[diesel(sql_type = BigInt)]
    pub version: i64,
    /// Its contents.
    #[diesel(sql_type = Binary)]
    pub data: Vec<u8>,
}

/// Any white space, as `char::is_whitespace` has it.
const WHITE: &str = r"[\s\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+";

/// The first of `candidates` whose text holds the quote, whose white space is single spaces.
fn quoted(candidates: &str) -> String {
    format!(
        "select s.name as slate, c.path, c.version, b.data
         from ({candidates}) as c
         join slates s on s.tenant_id = $1 and s.id = c.slate_id
         join tenant_settings t on t.tenant_id = $1
         join file_ids i on i.tenant_id = $1 and i.id = c.file_id
         left join files f on f.tenant_id = $1 and f.id = c.file_id
         join version_contents b on b.tenant_id = $1 and b.file_id = c.file_id and b.version = c.version
         where c.is_text and not (coalesce(f.hidden, i.hidden) or coalesce(c.path ~ t.deny_regex, false))
           and not coalesce(i.deleted_at < $3 - make_interval(days => s.retention_days), false)
           and strpos(regexp_replace(convert_from(b.data, 'UTF8'), '{WHITE}', ' ', 'g'), $2) > 0
         order by c.place limit 1"
    )
}

/// How many versions a quote is looked for in.
const MAX_VERSIONS: i64 = 100;

/// A version of a path, other than `except`, newest first, in which the quote stands.
pub(super) fn quoted_in_versions(
    tx: &mut Tx,
    slate: i64,
    path: &str,
    except: i64,
    quote: &str,
    now: DateTime<Utc>,
) -> Result<Option<QuotedRow>> {
    let candidates =
        "select v.*, -v.version as place from file_versions v where v.tenant_id = $1 and v.slate_id = $4
        and v.path = $5 and v.version <> $6 and v.blob is not null order by v.version desc limit $7";
    Ok(sql_query(quoted(candidates))
        .bind::<BigInt, _>(tx.tenant())
        .bind::<Text, _>(quote)
        .bind::<Timestamptz, _>(now)
        .bind::<BigInt, _>(slate)
        .bind::<Text, _>(path)
        .bind::<BigInt, _>(except)
        .bind::<BigInt, _>(MAX_VERSIONS)
        .get_result(tx.conn())
        .optional()?)
}

/// A version that a session was shown, in the order of its context, in which the quote stands. `slates`: only of these.
pub(super) fn quoted_in_session(
    tx: &mut Tx,
    session: Uuid,
    slates: Option<&[String]>,
    quote: &str,
    now: DateTime<Utc>,
) -> Result<Option<QuotedRow>> {
    let candidates = "select v.*, min(p.position) as place
        from provenance p cross join lateral unnest(p.file_ids, p.versions, p.statuses) as i (file_id, version, status)
        join file_versions v on v.tenant_id = $1 and v.file_id = i.file_id and v.version = i.version
        where p.tenant_id = $1 and p.session_id = $4 and i.status = 1 and v.blob is not null
          and ($5 is null or p.slate = any($5))
        group by v.tenant_id, v.file_id, v.version";
    Ok(sql_query(quoted(candidates))
        .bind::<BigInt, _>(tx.tenant())
        .bind::<Text, _>(quote)
        .bind::<Timestamptz, _>(now)
        .bind::<SqlUuid, _>(session)
        .bind::<Nullable<Array<Text>>, _>(slates)
        .get_result(tx.conn())
        .optional()?)
}
