//! `where`: files that a filter tree holds for (retrieval semantics §5).
//!
//! Tests of metatags are answered from the dictionary, as in [`metatag`](super::metatag), ranges of numbers included:
//! [`look_up`] gives the numbers of the terms that each test needs, all of them in one statement, and then the tree
//! becomes one condition over `file_tags` whose leaves are `term_ids && …` and `tags @> …`. A leaf that terms cannot
//! decide alone (`eq` of a string has the terms of a string[] too) tests the value beside it. Where a test has more than
//! [`MAX_TERMS`] terms it tests the values of all files that have the metatag.
//!
//! No leaf is ever null, so that `not` of what a file lacks is true.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::metatag::{MAX_PROBED, MAX_TERMS};
use super::{Frame, glob, key, push_arm, push_scope};
use crate::item::Mode;
use crate::metatags::terms::{self, Kind, digest};
use crate::retrieval::contains;
use crate::retrieval::filter::{Filter, Order, Test};
use crate::retrieval::found::Scope;
use crate::retrieval::glob::Glob;
use crate::retrieval::sql::Sql;

/// Terms of a metatag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted<'a> {
    key: &'a str,
    terms: Terms<'a>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Terms<'a> {
    /// The one that says something of the value whatever it is.
    Flag(Kind),
    /// Those of these very texts.
    Exactly(Kind, Vec<Cow<'a, str>>),
    /// Those whose text matches a pattern.
    Like(String),
    /// Those whose number compares so.
    Number(Order, &'a Value),
}

/// A tree and the terms that its tests need, in the order in which they are met.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arm {
    filter: Filter,
    /// For each of [`wanted`] the numbers of the terms; none where they are too many.
    ids: Vec<Option<Vec<i64>>>,
    /// The keys of all files that can match, where they are known to be few.
    among: Option<Vec<String>>,
}

/// The terms that the tests of a tree need.
pub fn wanted(filter: &Filter) -> Vec<Wanted<'_>> {
    let mut all = Vec::new();
    gather(filter, &mut all);
    all
}

fn gather<'a>(filter: &'a Filter, all: &mut Vec<Wanted<'a>>) {
    match filter {
        Filter::All(nodes) | Filter::Any(nodes) => nodes.iter().for_each(|node| gather(node, all)),
        Filter::Not(node) => gather(node, all),
        Filter::Tag(key, tests) if tests.is_empty() => {
            all.push(Wanted { key, terms: Terms::Flag(Kind::Present) })
        }
        Filter::Tag(key, tests) => {
            all.extend(tests.iter().flat_map(of_test).map(|terms| Wanted { key, terms }));
        }
        Filter::Name(_) | Filter::Modified(..) | Filter::Size(..) => {}
    }
}

/// The kind of term that a scalar is found by, and the text that it has there.
fn scalar(value: &Value) -> (Kind, Cow<'_, str>) {
    match value {
        Value::String(text) => (Kind::Text, text.into()),
        other => (Kind::Scalar, terms::canonical(other).into()),
    }
}

/// The term of all values of a scalar's type, and of others.
fn of_type(value: &Value) -> Terms<'static> {
    Terms::Flag(if value.is_string() { Kind::Element } else { Kind::NotText })
}

fn of_test(test: &Test) -> Vec<Terms<'_>> {
    match test {
        Test::Eq(value) => {
            let (kind, text) = scalar(value);
            vec![Terms::Exactly(kind, vec![text])]
        }
        Test::Ne(value) => vec![of_type(value)],
        Test::In(values) => {
            let of = |wanted| {
                let texts =
                    values.iter().map(scalar).filter(|(kind, _)| *kind == wanted).map(|(_, text)| text);
                Terms::Exactly(wanted, texts.collect())
            };
            vec![of(Kind::Text), of(Kind::Scalar)]
        }
        Test::Contains(text) => vec![Terms::Like(contains::like(text)), Terms::Flag(Kind::Element)],
        Test::StartsWith(text) => vec![Terms::Like(contains::prefix(text)), Terms::Flag(Kind::Element)],
        Test::Compare(order, value) if value.is_number() => {
            vec![Terms::Number(*order, value), Terms::Flag(Kind::NotText)]
        }
        Test::Compare(..) => vec![Terms::Flag(Kind::Element)],
        Test::Has(text) => vec![Terms::Exactly(Kind::Text, vec![text.into()])],
        Test::Matches(_) => vec![Terms::Flag(Kind::NotText)],
    }
}

/// The statement that looks up the terms: `place` among the wanted, from 0, and `ids`, null where they are more than
/// [`MAX_TERMS`].
pub fn look_up(tenant: i64, wanted: &[Wanted]) -> Sql {
    let mut sql = Sql::new(tenant);
    push_look_up(&mut sql, wanted);
    sql
}

/// Appends the same.
pub fn push_look_up(sql: &mut Sql, wanted: &[Wanted]) {
    for (place, Wanted { key, terms }) in wanted.iter().enumerate() {
        if place > 0 {
            sql.push(" union all ");
        }
        sql.push(&format!(
            "select {place}::bigint as place, (select case when count(*) <= {MAX_TERMS} \
             then coalesce(array_agg(id), '{{}}') end from (select id from search_tag_terms where tenant_id = $1 \
             and key_id = (select id from tag_keys where tenant_id = $1 and name = "
        ));
        sql.bind(*key).push(") and ");
        match terms {
            Terms::Flag(kind) => {
                sql.push(&format!("kind = '{}'", kind.letter()));
            }
            Terms::Exactly(kind, texts) => {
                sql.push(&format!("kind = '{}' and digest = any(", kind.letter()));
                let digests: Vec<Vec<u8>> = texts.iter().map(|text| digest(text)).collect();
                sql.bind(digests).push(")");
            }
            Terms::Like(pattern) => {
                sql.push("kind = 't' and term like ").bind(pattern.as_str());
            }
            Terms::Number(order, value) => {
                sql.push(&format!("num {} ", order.sql())).bind(value.to_string()).push("::numeric");
            }
        }
        sql.push(&format!(" limit {}) as terms) as ids", MAX_TERMS + 1));
    }
}

impl Arm {
    /// A tree, and what the look-up gave for each of [`wanted`].
    pub fn new(filter: Filter, ids: Vec<Option<Vec<i64>>>) -> Arm {
        Arm { filter, ids, among: None }
    }

    /// The fewest terms of which every file that matches has one; none where nothing narrows the tree to terms that are
    /// known.
    pub fn narrowest(&self) -> Option<Vec<i64>> {
        let mut all = Vec::new();
        conjuncts(&self.filter, &mut self.ids.iter(), true, &mut all);
        all.into_iter().min_by_key(Vec::len)
    }

    /// A pattern that the name of every file that matches has to fit, and that the index of names can be asked for.
    pub fn pattern(&self) -> Option<&Glob> {
        fn of(filter: &Filter) -> Option<&Glob> {
            match filter {
                Filter::All(nodes) => nodes.iter().find_map(of),
                Filter::Name(pattern) if pattern.prefix().is_none() && glob::has_infix(pattern) => {
                    Some(pattern)
                }
                _ => None,
            }
        }
        of(&self.filter)
    }

    /// The same arm for the files with these keys alone, among which all that match are.
    pub fn among(self, keys: Vec<String>) -> Arm {
        Arm { among: Some(keys), ..self }
    }

    pub(super) fn push(&self, sql: &mut Sql, scope: &Scope, frame: Frame<'_>) {
        push_arm(sql, ("search_file_tags", "file_id"), Mode::Where, scope, frame, |sql| {
            if let Some(keys) = &self.among {
                sql.push(&format!(" and {} = any(", key(scope))).bind(keys.clone()).push(")");
            }
            sql.push(" and ");
            Leaves { ids: self.ids.iter(), scope }.push(&self.filter, sql);
        });
    }
}

/// The statement that gives files whose names fit a pattern, one more than [`MAX_PROBED`] at most: `id`, `folder_id` and `key`.
/// To be run where nothing but bitmap scans is allowed.
pub fn with_names(tenant: i64, scope: &Scope, pattern: &Glob) -> Sql {
    let mut sql = Sql::new(tenant);
    sql.push(&format!(
        "select id, folder_id, {} as key from search_files where tenant_id = $1 and not hidden and ",
        key(scope)
    ));
    push_scope(&mut sql, scope);
    glob::push_test(pattern, &mut sql);
    sql.push(&format!(" limit {}", MAX_PROBED + 1));
    sql
}

/// Collects the terms of the tests that must all hold, each a list of which a file must have one. `ids` are those of the
/// tests that are still to come.
fn conjuncts(
    filter: &Filter,
    ids: &mut std::slice::Iter<'_, Option<Vec<i64>>>,
    must_hold: bool,
    all: &mut Vec<Vec<i64>>,
) {
    match filter {
        Filter::All(nodes) => nodes.iter().for_each(|node| conjuncts(node, ids, must_hold, all)),
        Filter::Any(nodes) => nodes.iter().for_each(|node| conjuncts(node, ids, false, all)),
        Filter::Not(node) => conjuncts(node, ids, false, all),
        Filter::Tag(_, tests) => {
            let each = tests.iter().map(|test| (of_test(test).len(), matches!(test, Test::In(_))));
            let flag = tests.is_empty().then_some((1, false));
            for (count, either) in each.chain(flag) {
                let mut lists: Vec<Option<Vec<i64>>> = ids.by_ref().take(count).cloned().collect();
                // Of `in`, texts and other scalars; of all others the first list, unless it is too long.
                if either {
                    let joined: Option<Vec<Vec<i64>>> = lists.into_iter().collect();
                    lists = vec![joined.map(|lists| lists.concat())];
                }
                all.extend(lists.into_iter().next().flatten().filter(|_| must_hold));
            }
        }
        Filter::Name(_) | Filter::Modified(..) | Filter::Size(..) => {}
    }
}

/// What the leaves of a tree take, one after the other.
struct Leaves<'a> {
    ids: std::slice::Iter<'a, Option<Vec<i64>>>,
    scope: &'a Scope,
}

impl Leaves<'_> {
    fn push(&mut self, filter: &Filter, sql: &mut Sql) {
        match filter {
            Filter::All(nodes) => self.join(nodes, " and ", "true", sql),
            Filter::Any(nodes) => self.join(nodes, " or ", "false", sql),
            Filter::Not(node) => {
                sql.push("not ");
                self.push(node, sql);
            }
            Filter::Tag(_, tests) if tests.is_empty() => {
                sql.push("(");
                self.has_terms(sql);
                sql.push(")");
            }
            Filter::Tag(key, tests) => {
                sql.push("(");
                for (i, test) in tests.iter().enumerate() {
                    sql.push(if i > 0 { " and (" } else { "(" });
                    self.test(key, test, sql);
                    sql.push(")");
                }
                sql.push(")");
            }
            // The trigram index is that of the files.
            Filter::Name(pattern) if pattern.prefix().is_none() && glob::has_infix(pattern) => {
                sql.push("(file_id in (select id from search_files where tenant_id = $1 and ");
                push_scope(sql, self.scope);
                glob::push_test(pattern, sql);
                sql.push("))");
            }
            Filter::Name(pattern) => {
                sql.push("(true");
                glob::push_test(pattern, sql);
                sql.push(")");
            }
            Filter::Modified(order, time) => {
                sql.push(
                    "((select f.modified_at from files f \
                     where f.tenant_id = $1 and f.id = search_file_tags.file_id) ",
                );
                sql.push(order.sql()).push(" ").bind(*time).push(")");
            }
            Filter::Size(order, bytes) => {
                sql.push("((select f.size from files f where f.tenant_id = $1 and f.id = search_file_tags.file_id) ");
                sql.push(order.sql()).push(" ").bind(*bytes).push(")");
            }
        }
    }

    fn join(&mut self, nodes: &[Filter], by: &str, of_none: &str, sql: &mut Sql) {
        sql.push("(");
        if nodes.is_empty() {
            sql.push(of_none);
        }
        for (i, node) in nodes.iter().enumerate() {
            if i > 0 {
                sql.push(by);
            }
            self.push(node, sql);
        }
        sql.push(")");
    }

    /// Appends that the file has one of the terms that come next, which are few.
    fn has_terms(&mut self, sql: &mut Sql) {
        let ids = self.next().unwrap_or_default();
        sql.push("term_ids && ").bind(ids);
    }

    fn next(&mut self) -> Option<Vec<i64>> {
        self.ids.next().cloned().flatten()
    }

    fn test(&mut self, key: &str, test: &Test, sql: &mut Sql) {
        match test {
            Test::Eq(value) => {
                self.has_terms(sql);
                if value.is_string() {
                    push_value(key, value, "=", sql);
                }
            }
            Test::Ne(value) => {
                self.has_terms(sql);
                push_value(key, value, "<>", sql);
            }
            Test::In(values) => {
                let texts: Vec<String> = values.iter().filter_map(Value::as_str).map(str::to_owned).collect();
                sql.push("(");
                self.has_terms(sql);
                push_typed(key, "string", sql, |sql| {
                    sql.push("tags ->> ").bind(key).push(" = any(").bind(texts).push(")");
                });
                sql.push(") or ");
                self.has_terms(sql);
            }
            Test::Contains(text) => self.like(key, contains::like(text), sql),
            Test::StartsWith(text) => self.like(key, contains::prefix(text), sql),
            Test::Compare(order, value) if value.is_number() => match (self.next(), self.next()) {
                (Some(ids), _) => {
                    sql.push("term_ids && ").bind(ids);
                }
                (None, numbers) => {
                    sql.push("term_ids && ").bind(numbers.unwrap_or_default());
                    sql.push(" and case jsonb_typeof(tags -> ")
                        .bind(key)
                        .push(") when 'number' then (tags -> ");
                    sql.bind(key).push(&format!(")::numeric {} ", order.sql()));
                    sql.bind(value.to_string()).push("::numeric else false end");
                }
            },
            Test::Compare(order, value) => {
                self.has_terms(sql);
                push_value(key, value, order.sql(), sql);
            }
            Test::Has(_) => {
                self.has_terms(sql);
                push_typed(key, "array", sql, |sql| {
                    sql.push("true");
                });
            }
            Test::Matches(value) => {
                self.has_terms(sql);
                push_typed(key, if value.is_array() { "array" } else { "object" }, sql, |sql| {
                    sql.push("true");
                });
                sql.push(" and tags @> ").bind(json!({ key: value }).to_string()).push("::text::jsonb");
            }
        }
    }

    /// A text is like the pattern: by terms, or by the values of all files that have texts.
    fn like(&mut self, key: &str, pattern: String, sql: &mut Sql) {
        let (ids, texts) = (self.next(), self.next());
        if let Some(ids) = ids {
            sql.push("term_ids && ").bind(ids);
            return;
        }
        sql.push("term_ids && ").bind(texts.unwrap_or_default());
        sql.push(" and case jsonb_typeof(tags -> ").bind(key).push(") when 'string' then tags ->> ");
        sql.bind(key).push(" like ").bind(pattern.as_str());
        sql.push(" else exists (select from jsonb_array_elements_text(tags -> ").bind(key);
        sql.push(") as element where element like ").bind(pattern).push(") end");
    }
}

/// Appends what holds of a value of this type alone. The terms have told nearly all of it, and of a `case` the planner takes
/// no more away: of two plain tests it would expect a file in forty thousand, and read all that have the terms.
fn push_typed(key: &str, name: &str, sql: &mut Sql, test: impl FnOnce(&mut Sql)) {
    sql.push(" and case jsonb_typeof(tags -> ").bind(key).push(&format!(") when '{name}' then "));
    test(sql);
    sql.push(" else false end");
}

/// Appends that the value is of a scalar's type and compares so. Texts compare by code point.
fn push_value(key: &str, value: &Value, operator: &str, sql: &mut Sql) {
    let name = match value {
        Value::String(_) => "string",
        Value::Bool(_) => "boolean",
        _ => "number",
    };
    push_typed(key, name, sql, |sql| match value {
        Value::String(text) => {
            sql.push("(tags ->> ")
                .bind(key)
                .push(&format!(") collate \"C\" {operator} "))
                .bind(text.as_str());
        }
        other => {
            sql.push("tags -> ").bind(key).push(&format!(" {operator} "));
            sql.bind(other.to_string()).push("::text::jsonb");
        }
    });
}
