//! `glob`: files whose name matches a pattern (retrieval semantics §3.5).
//!
//! A pattern is `name like …`, beside the range of names that begin alike, and `~` where it has a class. Without three
//! letters in a row, or with a class after a prefix that already narrows, the column is hidden from the trigram index as
//! `(name || '')`: an ordered scan with a limit is better then. A class is never looked up in the trigram index, which
//! may read most of a folder for it.

use super::{Frame, push_arm};
use crate::item::Mode;
use crate::retrieval::contains::has_trigram;
use crate::retrieval::found::Scope;
use crate::retrieval::glob::{Glob, Token};
use crate::retrieval::sql::Sql;

/// Appends the arm of a pattern.
pub fn push(pattern: &Glob, sql: &mut Sql, scope: &Scope, frame: Frame<'_>) {
    push_arm(sql, ("search_files", "id"), Mode::Glob, scope, frame, |sql| push_test(pattern, sql));
}

/// Whether a pattern has a literal part that the trigram index of names can be asked for.
pub(super) fn has_infix(pattern: &Glob) -> bool {
    pattern.tokens().iter().any(|token| matches!(token, Token::Literal(text) if has_trigram(text)))
}

/// Appends the test of a name, as further conditions.
pub(super) fn push_test(pattern: &Glob, sql: &mut Sql) {
    if let Some(name) = pattern.exact() {
        sql.push(" and name = ").bind(name);
        return;
    }
    let regex = pattern.regex();
    let prefix = pattern.prefix();
    let like = pattern.like();
    if like != "%" {
        let skipped = usize::from(regex.is_some() && prefix.is_some());
        let narrows = |token: &Token| matches!(token, Token::Literal(text) if has_trigram(text));
        let column = if pattern.tokens().iter().skip(skipped).any(narrows) { "name" } else { "(name || '')" };
        sql.push(&format!(" and {column} like ")).bind(like);
    }
    if let Some((first, beyond)) = prefix {
        sql.push(" and name >= ").bind(first);
        if let Some(beyond) = beyond {
            sql.push(" and name < ").bind(beyond);
        }
    }
    if let Some(regex) = regex {
        sql.push(" and (name || '') ~ ").bind(regex);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::retrieval::sql::Bind;

    macro_rules! tests {
        ($($name:ident: $pattern:expr => $text:expr, [$($bind:expr),*];)*) => {
            $(#[test] fn $name() {
                let mut sql = Sql::new(1);
                push_test(&Glob::parse($pattern).unwrap(), &mut sql);
                let binds: Vec<Bind> = vec![Bind::Int(1), $(Bind::from($bind)),*];
                assert_eq!((sql.text.as_str(), sql.binds), ($text, binds));
            })*
        };
    }

    tests! {
        everything: "**" => "", [];
        exact: "core.md" => " and name = $2", ["core.md"];
        suffix: "*.md" => " and (name || '') like $2", ["%.md"];
        infix: "*report*" => " and name like $2", ["%report%"];
        prefix: "report-*" => " and name like $2 and name >= $3 and name < $4", ["report-%", "report-", "report."];
        class: "[ab]*" => " and (name || '') like $2 and name >= $3 and name < $4 and (name || '') ~ $5",
            ["_%", "a", "c", "^(?:[ab].*)$"];
        class_after_a_prefix: "report-[ab]*" =>
            " and (name || '') like $2 and name >= $3 and name < $4 and (name || '') ~ $5",
            ["report-_%", "report-a", "report-c", "^(?:report-[ab].*)$"];
        class_and_an_infix: "[ab]*report*" =>
            " and name like $2 and name >= $3 and name < $4 and (name || '') ~ $5",
            ["_%report%", "a", "c", "^(?:[ab].*report.*)$"];
    }
}
