//! `files`: files by path (retrieval semantics §2.3 and §3.1).

use crate::retrieval::sql::Sql;

/// The statement that finds files at these paths from the slate's root, hidden ones too, which are to be refused: `id`,
/// `path`, `size` and `hidden`. With `by_nfc` the paths are in normal form C, and `nfc` is what they are compared with.
pub fn look_up(tenant: i64, slate_id: i64, paths: Vec<String>, by_nfc: bool) -> Sql {
    let column = if by_nfc { "nfc" } else { "path" };
    let mut sql = Sql::new(tenant);
    sql.push(&format!("select id, path, {column} as key, size, hidden from search_files where tenant_id = $1 and slate_id = "));
    sql.bind(slate_id).push(&format!(" and {column} = any(")).bind(paths).push(")");
    sql
}
