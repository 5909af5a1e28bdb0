//! The SQL of files' metatags.

use std::collections::HashMap;

use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Jsonb, Nullable, Text};
use diesel::{QueryableByName, sql_query};
use serde_json::Value;

use crate::db::Tx;
use crate::error::{Error, Result};
use crate::files::head::Head;
use crate::files::write::Entry;
use crate::metatags::Tags;

/// The metatags of a file that is being written.
pub(in crate::files) struct TagRow<'a> {
    pub entry: &'a Entry<'a>,
    pub tags: &'a Tags,
    pub term_ids: Vec<i64>,
}

/// Sets metatags; those that are the same already stay untouched.
pub fn put_tags(tx: &mut Tx, slate: i64, rows: &[TagRow]) -> Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    // Arrays of arrays must be of one length, so the numbers travel as text.
    let numbers: Vec<String> = rows
        .iter()
        .map(|row| {
            let ids: Vec<String> = row.term_ids.iter().map(i64::to_string).collect();
            format!("{{{}}}", ids.join(","))
        })
        .collect();
    let tags: Vec<Value> = rows.iter().map(|row| Value::Object(row.tags.as_map().clone())).collect();
    let of_source: Vec<Option<Value>> =
        rows.iter().map(|row| row.entry.of_source().map(Value::from)).collect();
    // What a source set is no matter of the file's: it leaves the revision as it is.
    sql_query(
        "insert into file_tags as t \
             (tenant_id, slate_id, file_id, folder_id, name, path, hidden, tags, term_ids, of_source) \
         select $1, $2, f.id, f.folder_id, f.name, f.path, f.hidden, new.tags, new.term_ids::bigint[], new.of_source \
         from unnest($3, $4, $5, $6) as new (path, tags, term_ids, of_source) cross join lateral (select * from files f \
             where f.tenant_id = $1 and f.slate_id = $2 and f.path = new.path limit 1) as f \
         on conflict (tenant_id, folder_id, name) do update \
            set tags = excluded.tags, term_ids = excluded.term_ids, \
                revision = t.revision + case when t.tags <> excluded.tags then 1 else 0 end, \
                of_source = coalesce(excluded.of_source, t.of_source) \
            where t.tags <> excluded.tags or t.of_source is distinct from coalesce(excluded.of_source, t.of_source)",
    )
    .bind::<BigInt, _>(tx.tenant())
    .bind::<BigInt, _>(slate)
    .bind::<Array<Text>, _>(rows.iter().map(|row| row.entry.write.path.as_str()).collect::<Vec<_>>())
    .bind::<Array<Jsonb>, _>(tags)
    .bind::<Array<Text>, _>(numbers)
    .bind::<Array<Nullable<Jsonb>>, _>(of_source)
    .execute(tx.conn())?;
    Ok(())
}

#[derive(QueryableByName)]
struct SourceRow {
    #[diesel(sql_type = Text)]
    path: String,
    #[diesel(sql_type = Jsonb)]
    tags: Value,
    #[diesel(sql_type = Jsonb)]
    of_source: Value,
}

/// The metatags of the files at these paths, by path, and the names of those that their source set. The files are held for a
/// write.
pub fn tags_of_source(
    tx: &mut Tx,
    slate: i64,
    paths: &[&str],
) -> Result<HashMap<String, (Tags, Vec<String>)>> {
    if paths.is_empty() {
        return Ok(HashMap::new());
    }
    let rows: Vec<SourceRow> = sql_query(
        "select t.path, t.tags, coalesce(t.of_source, '[]') as of_source from unnest($3) as asked (path) \
         cross join lateral (select t.path, t.tags, t.of_source from file_tags t \
             where t.tenant_id = $1 and t.slate_id = $2 and t.path = asked.path limit 1) as t",
    )
    .bind::<BigInt, _>(tx.tenant())
    .bind::<BigInt, _>(slate)
    .bind::<Array<Text>, _>(paths)
    .load(tx.conn())?;
    let row = |row: SourceRow| {
        let names = serde_json::from_value(row.of_source).map_err(Error::internal)?;
        Ok((row.path, (Tags::stored(row.tags), names)))
    };
    rows.into_iter().map(row).collect()
}

/// Sets a file's metatags alone.
pub fn set_tags(tx: &mut Tx, head: &Head, tags: &Tags, term_ids: &[i64]) -> Result<()> {
    sql_query(
        "update file_tags set tags = $4, term_ids = $5, revision = revision + 1 \
         where tenant_id = $1 and folder_id = $2 and file_id = $3 and name = $6 and tags <> $4",
    )
    .bind::<BigInt, _>(tx.tenant())
    .bind::<BigInt, _>(head.folder_id)
    .bind::<BigInt, _>(head.id)
    .bind::<Jsonb, _>(Value::Object(tags.as_map().clone()))
    .bind::<Array<BigInt>, _>(term_ids)
    .bind::<Text, _>(head.path.rsplit('/').next().unwrap_or_default())
    .execute(tx.conn())?;
    Ok(())
}

#[derive(QueryableByName)]
struct TagsRow {
    #[diesel(sql_type = Jsonb)]
    tags: Value,
}

/// The metatags of a live file.
pub fn tags(tx: &mut Tx, slate: i64, path: &str) -> Result<Option<Tags>> {
    let row: Option<TagsRow> =
        sql_query("select tags from file_tags where tenant_id = $1 and slate_id = $2 and path = $3")
            .bind::<BigInt, _>(tx.tenant())
            .bind::<BigInt, _>(slate)
            .bind::<Text, _>(path)
            .get_result(tx.conn())
            .optional()?;
    Ok(row.map(|row| Tags::stored(row.tags)))
}
