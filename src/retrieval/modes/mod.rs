//! The modes, one file each: what a mode asks for, as SQL.
//!
//! [`files`] and [`subfolders`] are look-ups by path. [`metatag`], [`glob`] and `where` are *arms*: each selects files of the
//! declared folder, and [`union`](super::union) puts them together. A further arm is a file here, a variant of [`Arm`],
//! and nothing else.
//!
//! An arm is `(select id, folder_id, key, bits …)`: the file, its folder, the key that results are ordered by, and the bit of the mode. It
//! names `tenant_id = $1`, reads a search view (which keeps its indexes in reach under row-level security), and never
//! sees a hidden file.

use super::found::Scope;
use super::look::Place;
use super::sql::Sql;
use crate::item::Mode;

pub mod files;
pub mod glob;
pub mod metatag;
pub mod subfolders;
pub mod r#where;

/// A mode that selects files, ready to be searched by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Arm {
    /// By a metatag.
    Metatag(metatag::Arm),
    /// By a pattern over names.
    Glob(crate::retrieval::glob::Glob),
    /// By a filter tree.
    Where(r#where::Arm),
}

/// Which of the files that an arm selects are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame<'a> {
    /// The first `limit` in order whose key comes after `after`, except some.
    Page {
        /// The key.
        after: Option<&'a str>,
        /// Numbers of files.
        except: &'a [i64],
        /// How many.
        limit: i64,
    },
    /// Those at these paths, in no order.
    Only {
        /// Paths from the slate's root.
        paths: &'a [String],
        /// The numbers of the files there.
        ids: &'a [i64],
    },
}

/// The fewest rows that an arm is asked for. For one or two rows the planner would rather walk through a whole folder,
/// in the hope of meeting them soon, than look them up.
pub const MIN_ROWS: i64 = 21;

impl Arm {
    /// Appends the arm.
    pub fn push(&self, sql: &mut Sql, scope: &Scope, frame: Frame<'_>) {
        match self {
            Arm::Metatag(arm) => arm.push(sql, scope, frame),
            Arm::Glob(pattern) => glob::push(pattern, sql, scope, frame),
            Arm::Where(arm) => arm.push(sql, scope, frame),
        }
    }
}

/// The column that results are ordered by.
pub fn key(scope: &Scope) -> &'static str {
    if scope.recursive { "path" } else { "name" }
}

/// Appends the condition that a row lies in the scope.
pub fn push_scope(sql: &mut Sql, scope: &Scope) {
    Place::Known(scope).push(sql);
}

/// Appends an arm over one view: the rows of the frame that pass `test`.
fn push_arm(
    sql: &mut Sql,
    (view, id): (&str, &str),
    mode: Mode,
    scope: &Scope,
    frame: Frame<'_>,
    test: impl FnOnce(&mut Sql),
) {
    let key = key(scope);
    sql.push(&format!(
        "(select {id} as id, folder_id, {key} as key, {}::smallint as bits from {view} ",
        mode.bit()
    ));
    sql.push("where tenant_id = $1 and not hidden and ");
    push_scope(sql, scope);
    test(sql);
    match frame {
        Frame::Page { after, except, limit } => {
            if let Some(after) = after {
                sql.push(&format!(" and {key} > ")).bind(after);
            }
            if !except.is_empty() {
                sql.push(&format!(" and {id} <> all(")).bind(except).push(")");
            }
            sql.push(&format!(" order by {key} limit ")).bind(limit.max(MIN_ROWS));
        }
        Frame::Only { paths, .. } => {
            if !scope.recursive {
                sql.push(" and slate_id = ").bind(scope.slate_id);
            }
            sql.push(" and path = any(").bind(paths.to_vec()).push(")");
        }
    }
    sql.push(")");
}
