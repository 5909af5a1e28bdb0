//! Names that are near to a missing one (retrieval semantics §4.8).
//!
//! Candidates are the names around the missing one in order, and those with the same stem in any case; so a look costs
//! the same in a folder of any size, and a folder of up to some two hundred files is looked at whole.

use super::contains;
use super::sql::Sql;

/// How many misses of a result explain themselves.
pub const MAX_HINTS: usize = 10;
/// How many names a hint gives.
pub const MAX_NEAREST: usize = 3;
/// Names that are looked at before and after the missing one, and with the same stem.
const WINDOW: i64 = 100;

/// A name that is missing from a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    /// Which of the misses it is.
    pub n: i64,
    /// The number of the folder to look in.
    pub folder_id: i64,
    /// The name.
    pub name: String,
    /// Whether it is a folder that is missed.
    pub folder: bool,
}

/// The statement that finds near names, nearest first: `n` and `path` from the slate's root, that of a folder with a `/`
/// after it; at most `limit` for each. `lost` must not be empty.
pub fn statement(tenant: i64, lost: &[Lost], limit: usize) -> Sql {
    let mut sql = Sql::new(tenant);
    sql.push("select n, path from (");
    for (i, lost) in lost.iter().enumerate() {
        if i > 0 {
            sql.push(" union all ");
        }
        push_one(&mut sql, lost, limit);
    }
    sql.push(") as found order by n, near desc, path");
    sql
}

fn push_one(sql: &mut Sql, lost: &Lost, limit: usize) {
    let (view, parent, path) = match lost.folder {
        true => ("folders", "parent_id", "path || '/' as path"),
        false => ("search_files", "folder_id", "path"),
    };
    sql.push("(select ").bind(lost.n).push(" as n, path, similarity(name, ").bind(lost.name.as_str());
    sql.push(") as near from (");
    let candidates = |sql: &mut Sql, test: &str, value: &str, order: &str| {
        sql.push(&format!(
            "(select name, {path} from {view} where tenant_id = $1 and not hidden and {parent} = "
        ));
        sql.bind(lost.folder_id).push(&format!(" and name {test} ")).bind(value);
        sql.push(&format!(" {order} limit {WINDOW})"));
    };
    candidates(sql, ">", &lost.name, "order by name");
    sql.push(" union ");
    candidates(sql, "<", &lost.name, "order by name desc");
    let stem = lost.name.rsplit_once('.').map_or(lost.name.as_str(), |(stem, _)| stem);
    if contains::has_trigram(stem) {
        sql.push(" union ");
        candidates(sql, "ilike", &contains::like(stem), "");
    }
    sql.push(") as c where similarity(name, ").bind(lost.name.as_str());
    sql.push(&format!(") >= 0.3 order by near desc, path limit {limit})"));
}
