//! `metatag`: files by a metatag, and text that its value contains (retrieval semantics §3.3 and §3.4).
//!
//! Values repeat, so what is searched for the text is the dictionary of terms, and files are then found by the numbers of
//! the terms. That is done in steps, since the planner must see the numbers to choose well:
//!
//! 1. [`look_up`] counts the files of the scope up to [`SMALL`], and, if there are more, gives the numbers of the terms.
//! 2. [`plan`] chooses. A small scope is read through, its tags tested directly; so is any scope when very many terms
//!    match, since then very many files do. One or two terms are left to the planner, which knows how common they are.
//! 3. Of more terms it knows nothing, and would read a whole folder for terms that nobody has. Where a short page is all that
//!    is wanted, it is searched for among the next [`FIRST`] files, which is the answer if they fill it. Else [`probe`] looks
//!    the terms up one after the other, by bitmap alone, until [`MAX_PROBED`] files are found. If there are no more, these
//!    are the answer; if there are, matches are so common that an ordered scan soon meets enough of them.

use super::{Frame, MIN_ROWS, key, push_arm, push_scope};
use crate::item::Mode;
use crate::retrieval::contains;
use crate::retrieval::found::Scope;
use crate::retrieval::look::Place;
use crate::retrieval::request::MetatagTest;
use crate::retrieval::sql::Sql;

/// Up to so many files, a scope is read through rather than searched.
pub const SMALL: i64 = 500;
/// Past so many terms, the dictionary is left aside.
pub const MAX_TERMS: i64 = 2000;
/// Past so many terms, files are probed for.
pub const MAX_PLANNED: usize = 2;
/// Files that are looked at first, for a page that wants an eighth of them at most.
pub const FIRST: i64 = 1000;
/// Past so many files, a probe has found that matches are common.
pub const MAX_PROBED: usize = 2000;

/// How files are found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Arm {
    /// By testing the tags of each.
    Values(MetatagTest),
    /// By the numbers of terms.
    Terms(Vec<i64>),
    /// By the numbers of terms, among the next [`FIRST`] files alone.
    Soon(Vec<i64>),
    /// They are known, in no order.
    Known(Vec<Probed>),
}

/// A file that was probed for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probed {
    /// Its number.
    pub id: i64,
    /// Its folder's number.
    pub folder_id: i64,
    /// What it is ordered by.
    pub key: String,
}

/// What is to be done after the look-up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Plan {
    /// No file can match.
    Nothing,
    /// Search by this.
    Search(Arm),
    /// Probe for these terms.
    Probe(Vec<i64>),
}

/// The statement that looks up the terms of a test: `files` in the scope, counted to one more than [`SMALL`], and
/// `ids`, null where the scope is small or the terms are more than [`MAX_TERMS`].
pub fn look_up(tenant: i64, scope: &Scope, test: &MetatagTest) -> Sql {
    let mut sql = Sql::new(tenant);
    push_look_up(&mut sql, &Place::Known(scope), test);
    sql
}

/// Appends the same for the files of a place.
pub fn push_look_up(sql: &mut Sql, place: &Place<'_>, test: &MetatagTest) {
    sql.push(&format!("select p.files, case when p.files > {SMALL} then "));
    match test.contains.as_deref() {
        None => push_terms(sql, test, "'x'"),
        Some("") => push_terms(sql, test, "'e', 'n'"),
        Some(text) if contains::has_trigram(text) => {
            sql.push(&format!("(select case when count(*) <= {MAX_TERMS} then coalesce(array_agg(id), '{{}}') end from ((select id"));
            push_dictionary(sql, test, "'t'");
            sql.push(" and term like ").bind(contains::like(text));
            sql.push(&format!(" limit {}) union all (select id", MAX_TERMS + 1));
            push_dictionary(sql, test, "'n'");
            sql.push(")) as t)");
        }
        // No index narrows this: the terms of the metatag are read one by one, in the order of an index that leads by
        // the metatag, and if there are too many of them none is.
        Some(text) => {
            sql.push(&format!("(select case when count(*) <= {MAX_TERMS} then coalesce(array_agg(id) filter (where kind = 'n' or term like "));
            sql.bind(contains::like(text)).push("), '{}') end from ((select id, kind, term");
            push_dictionary(sql, test, "'t'");
            sql.push(&format!(" order by digest limit {}) union all (select id, kind, term", MAX_TERMS + 1));
            push_dictionary(sql, test, "'n'");
            sql.push(")) as t)");
        }
    }
    sql.push(" end as ids from (select count(*) as files from (select from search_file_tags where tenant_id = $1 and ");
    place.push(sql);
    sql.push(&format!(" limit {}) as few) as p", SMALL + 1));
}

fn push_terms(sql: &mut Sql, test: &MetatagTest, kinds: &str) {
    sql.push("array(select id");
    push_dictionary(sql, test, kinds);
    sql.push(")");
}

fn push_dictionary(sql: &mut Sql, test: &MetatagTest, kinds: &str) {
    sql.push(" from search_tag_terms where tenant_id = $1 and kind in (").push(kinds);
    sql.push(") and key_id = (select id from tag_keys where tenant_id = $1 and name = ");
    sql.bind(test.name.as_str()).push(")");
}

/// Chooses by what the look-up gave.
pub fn plan(test: &MetatagTest, ids: Option<Vec<i64>>) -> Plan {
    match ids {
        None => Plan::Search(Arm::Values(test.clone())),
        Some(ids) if ids.is_empty() => Plan::Nothing,
        Some(ids) if ids.len() <= MAX_PLANNED => Plan::Search(Arm::Terms(ids)),
        Some(ids) => Plan::Probe(ids),
    }
}

/// The statement that probes for terms, to be run where nothing but bitmap scans is allowed: `id`, `folder_id` and `key` of
/// files, a file as often as it has one of the terms, one more than [`MAX_PROBED`] at most.
pub fn probe(tenant: i64, scope: &Scope, ids: &[i64]) -> Sql {
    let mut sql = Sql::new(tenant);
    sql.push("select f.file_id as id, f.folder_id, f.key from unnest(").bind(ids);
    sql.push(&format!(
        ") as wanted (id) cross join lateral (select file_id, folder_id, {} as key from search_file_tags ",
        key(scope)
    ));
    sql.push("where tenant_id = $1 and not hidden and ");
    push_scope(&mut sql, scope);
    sql.push(&format!(" and term_ids && array[wanted.id]) as f limit {}", MAX_PROBED + 1));
    sql
}

impl Arm {
    /// What a probe for `ids` found to be best.
    pub fn probed(ids: Vec<i64>, mut found: Vec<Probed>) -> Arm {
        if found.len() > MAX_PROBED {
            return Arm::Terms(ids);
        }
        found.sort_unstable_by_key(|file| file.id);
        found.dedup_by_key(|file| file.id);
        Arm::Known(found)
    }

    pub(super) fn push(&self, sql: &mut Sql, scope: &Scope, frame: Frame<'_>) {
        const VIEW: (&str, &str) = ("search_file_tags", "file_id");
        match self {
            Arm::Values(test) => push_arm(sql, VIEW, Mode::Metatag, scope, frame, |sql| push_test(test, sql)),
            Arm::Terms(ids) => push_arm(sql, VIEW, Mode::Metatag, scope, frame, |sql| {
                sql.push(" and term_ids && ").bind(ids.as_slice());
            }),
            Arm::Soon(ids) => match frame {
                Frame::Page { after, except, limit } => push_soon(ids, sql, scope, (after, except, limit)),
                Frame::Only { .. } => Arm::Terms(ids.clone()).push(sql, scope, frame),
            },
            Arm::Known(known) => push_known(known, sql, frame),
        }
    }
}

fn push_soon(ids: &[i64], sql: &mut Sql, scope: &Scope, (after, except, limit): (Option<&str>, &[i64], i64)) {
    let (key, bit) = (key(scope), Mode::Metatag.bit());
    sql.push(&format!(
        "(select id, folder_id, key, {bit}::smallint as bits from (select file_id as id, folder_id, "
    ));
    sql.push(&format!(
        "{key} as key, term_ids from search_file_tags where tenant_id = $1 and not hidden and "
    ));
    push_scope(sql, scope);
    if let Some(after) = after {
        sql.push(&format!(" and {key} > ")).bind(after);
    }
    sql.push(&format!(" order by {key} limit {FIRST}) as first where term_ids && ")).bind(ids);
    if !except.is_empty() {
        sql.push(" and id <> all(").bind(except).push(")");
    }
    sql.push(" order by key limit ").bind(limit).push(")");
}

fn push_known(known: &[Probed], sql: &mut Sql, frame: Frame<'_>) {
    sql.push(&format!(
        "(select id, folder_id, key collate \"C\" as key, {}::smallint as bits from unnest(",
        Mode::Metatag.bit()
    ));
    sql.bind(known.iter().map(|file| file.id).collect::<Vec<_>>()).push(", ");
    sql.bind(known.iter().map(|file| file.folder_id).collect::<Vec<_>>()).push(", ");
    sql.bind(known.iter().map(|file| file.key.clone()).collect::<Vec<_>>());
    sql.push(") as known (id, folder_id, key) where true");
    match frame {
        Frame::Page { after, except, limit } => {
            if let Some(after) = after {
                sql.push(" and key collate \"C\" > ").bind(after);
            }
            if !except.is_empty() {
                sql.push(" and id <> all(").bind(except).push(")");
            }
            sql.push(" order by key collate \"C\" limit ").bind(limit.max(MIN_ROWS)).push(")");
        }
        Frame::Only { ids, .. } => {
            sql.push(" and id = any(").bind(ids).push("))");
        }
    }
}

/// Appends the test of one file's tags. An array that holds anything but strings is no `string[]`, and matches whatever
/// the text is, like every other structured value.
fn push_test(test: &MetatagTest, sql: &mut Sql) {
    let name = |sql: &mut Sql| {
        sql.bind(test.name.as_str());
    };
    let Some(text) = &test.contains else {
        sql.push(" and tags ? ");
        return name(sql);
    };
    let pattern = contains::like(text);
    sql.push(" and case jsonb_typeof(tags -> ");
    name(sql);
    sql.push(") when 'string' then tags ->> ");
    name(sql);
    sql.push(" like ").bind(pattern.as_str());
    sql.push(" when 'array' then exists (select from jsonb_array_elements(tags -> ");
    name(sql);
    sql.push(") as element where jsonb_typeof(element) <> 'string' or element #>> '{}' like ").bind(pattern);
    sql.push(") else tags ? ");
    name(sql);
    sql.push(" end");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test() -> MetatagTest {
        MetatagTest { name: "topic".into(), contains: Some("x".into()) }
    }

    #[test]
    fn the_plan_follows_from_the_number_of_terms() {
        assert_eq!(plan(&test(), None), Plan::Search(Arm::Values(test())));
        assert_eq!(plan(&test(), Some(vec![])), Plan::Nothing);
        assert_eq!(plan(&test(), Some(vec![1, 2])), Plan::Search(Arm::Terms(vec![1, 2])));
        assert_eq!(plan(&test(), Some(vec![1, 2, 3])), Plan::Probe(vec![1, 2, 3]));
    }

    #[test]
    fn few_probed_files_are_known_once_each_and_many_are_left_to_a_scan() {
        let file = |id: i64, key: &str| Probed { id, folder_id: 1, key: key.to_owned() };
        let found = vec![file(7, "b"), file(3, "a"), file(7, "b")];
        assert_eq!(Arm::probed(vec![1, 2, 3], found), Arm::Known(vec![file(3, "a"), file(7, "b")]));
        let many = vec![file(7, "b"); MAX_PROBED + 1];
        assert_eq!(Arm::probed(vec![1, 2, 3], many), Arm::Terms(vec![1, 2, 3]));
    }
}
