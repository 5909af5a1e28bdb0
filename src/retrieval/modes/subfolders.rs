//! `subfolders`: the indexes of folders (retrieval semantics §3.2). A folder is found here by its path; its index is what
//! `folders` gives of it to any reader.

use crate::retrieval::sql::Sql;

/// The statement that finds folders at these paths from the slate's root, hidden ones too: `id`, `key` (the path that
/// was asked for), `size` 0 and `hidden`. With `by_nfc` the paths are in normal form C.
pub fn look_up(tenant: i64, slate_id: i64, paths: Vec<String>, by_nfc: bool) -> Sql {
    let column = if by_nfc { "nfc" } else { "path" };
    let mut sql = Sql::new(tenant);
    sql.push(&format!("select id, path, {column} as key, 0::bigint as size, hidden from folders where tenant_id = $1 and slate_id = "));
    sql.bind(slate_id).push(&format!(" and {column} = any(")).bind(paths).push(")");
    sql
}
