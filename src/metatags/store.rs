//! The dictionary's SQL.

use std::collections::{BTreeSet, HashMap};

use diesel::sql_types::{Array, BigInt, Binary, Text};
use diesel::{QueryableByName, RunQueryDsl, sql_query};

use super::terms::{Term, lock_key};
use crate::db::Tx;
use crate::error::Result;

#[derive(QueryableByName)]
struct KeyRow {
    #[diesel(sql_type = Text)]
    name: String,
    #[diesel(sql_type = BigInt)]
    id: i64,
}

#[derive(QueryableByName)]
struct TermRow {
    /// The place of the term in what was asked for, from 1.
    #[diesel(sql_type = BigInt)]
    place: i64,
    #[diesel(sql_type = BigInt)]
    id: i64,
}

/// A statement of its own: the next ones see what was taken away before the lock was held.
pub fn hold_writers(tx: &mut Tx, shared: bool) -> Result<()> {
    let lock = if shared { "pg_advisory_xact_lock_shared" } else { "pg_advisory_xact_lock" };
    sql_query(format!("select {lock}($1)")).bind::<BigInt, _>(lock_key(tx.tenant())).execute(tx.conn())?;
    Ok(())
}

/// The number of each term, making those that the dictionary lacks. New ones are made in sorted order, so that two
/// writers of the same terms wait for each other rather than deadlock.
///
/// # Errors
/// Those of the database.
pub fn intern<'a>(tx: &mut Tx, terms: &BTreeSet<Term<'a>>) -> Result<HashMap<Term<'a>, i64>> {
    if terms.is_empty() {
        return Ok(HashMap::new());
    }
    let keys: BTreeSet<&str> = terms.iter().map(|term| term.key).collect();
    let keys = intern_keys(tx, &keys.into_iter().collect::<Vec<_>>())?;
    let mut known = HashMap::with_capacity(terms.len());
    let all: Vec<&Term> = terms.iter().collect();
    find(tx, &keys, &all, &mut known)?;
    let missing: Vec<&Term> = all.into_iter().filter(|term| !known.contains_key(*term)).collect();
    if !missing.is_empty() {
        insert(tx, &keys, &missing)?;
        find(tx, &keys, &missing, &mut known)?;
    }
    Ok(known)
}

fn intern_keys(tx: &mut Tx, names: &[&str]) -> Result<HashMap<String, i64>> {
    let mut known = find_keys(tx, names)?;
    let missing: Vec<&str> = names.iter().filter(|name| !known.contains_key(**name)).copied().collect();
    if !missing.is_empty() {
        sql_query(
            "insert into tag_keys (tenant_id, name) select $1, name from unnest($2) as new (name) order by name \
             on conflict do nothing",
        )
        .bind::<BigInt, _>(tx.tenant())
        .bind::<Array<Text>, _>(&missing)
        .execute(tx.conn())?;
        known.extend(find_keys(tx, &missing)?);
    }
    Ok(known)
}

fn find_keys(tx: &mut Tx, names: &[&str]) -> Result<HashMap<String, i64>> {
    let rows: Vec<KeyRow> =
        sql_query("select name, id from tag_keys where tenant_id = $1 and name = any($2)")
            .bind::<BigInt, _>(tx.tenant())
            .bind::<Array<Text>, _>(names)
            .load(tx.conn())?;
    Ok(rows.into_iter().map(|row| (row.name, row.id)).collect())
}

/// The three columns that name terms in the dictionary.
fn columns(keys: &HashMap<String, i64>, terms: &[&Term]) -> (Vec<i64>, Vec<&'static str>, Vec<Vec<u8>>) {
    (
        terms.iter().map(|term| keys[term.key]).collect(),
        terms.iter().map(|term| term.kind.letter()).collect(),
        terms.iter().map(|term| term.digest()).collect(),
    )
}

fn find<'a>(
    tx: &mut Tx,
    keys: &HashMap<String, i64>,
    terms: &[&Term<'a>],
    known: &mut HashMap<Term<'a>, i64>,
) -> Result<()> {
    let (key_ids, kinds, digests) = columns(keys, terms);
    let rows: Vec<TermRow> = sql_query(
        "with asked as materialized (select key_id, kind::\"char\" as kind, digest, place \
             from unnest($2, $3, $4) with ordinality as asked (key_id, kind, digest, place)) \
         select asked.place, t.id from asked \
         cross join lateral (select t.id from tag_terms t where t.tenant_id = $1 and t.key_id = asked.key_id \
             and t.kind = asked.kind and t.digest = asked.digest limit 1) as t",
    )
    .bind::<BigInt, _>(tx.tenant())
    .bind::<Array<BigInt>, _>(key_ids)
    .bind::<Array<Text>, _>(kinds)
    .bind::<Array<Binary>, _>(digests)
    .load(tx.conn())?;
    known.extend(rows.into_iter().map(|row| (terms[row.place as usize - 1].clone(), row.id)));
    Ok(())
}

fn insert(tx: &mut Tx, keys: &HashMap<String, i64>, terms: &[&Term]) -> Result<()> {
    let (key_ids, kinds, digests) = columns(keys, terms);
    let texts: Vec<&str> = terms.iter().map(|term| &*term.text).collect();
    sql_query(
        "insert into tag_terms (tenant_id, key_id, kind, digest, term) \
         select $1, key_id, kind::\"char\", digest, term \
         from unnest($2, $3, $4, $5) as new (key_id, kind, digest, term) order by key_id, kind, digest \
         on conflict do nothing",
    )
    .bind::<BigInt, _>(tx.tenant())
    .bind::<Array<BigInt>, _>(key_ids)
    .bind::<Array<Text>, _>(kinds)
    .bind::<Array<Binary>, _>(digests)
    .bind::<Array<Text>, _>(texts)
    .execute(tx.conn())?;
    Ok(())
}
