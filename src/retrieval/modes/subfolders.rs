//! `subfolders`: the indexes of folders (retrieval semantics §3.2).

use crate::retrieval::sql::Sql;

/// Up to so many files below a nested folder, their sizes are added up.
pub const MAX_SUMMED: i64 = 10_000;

/// The statement that finds folders at these paths from the slate's root, hidden ones too: `id`, `key` (the path that
/// was asked for), `size` 0 and `hidden`. With `by_nfc` the paths are in normal form C.
pub fn look_up(tenant: i64, slate_id: i64, paths: Vec<String>, by_nfc: bool) -> Sql {
    let column = if by_nfc { "nfc" } else { "path" };
    let mut sql = Sql::new(tenant);
    sql.push(&format!("select id, path, {column} as key, 0::bigint as size, hidden from folders where tenant_id = $1 and slate_id = "));
    sql.bind(slate_id).push(&format!(" and {column} = any(")).bind(paths).push(")");
    sql
}

/// The statement that gives a page of a folder's index: `name` as it is printed, which is also the order, and `size`.
/// Files and folders are two ordered scans; the sizes below a folder are added up for those alone that are on the page.
pub fn index(tenant: i64, folder_id: i64, after: Option<&str>, limit: i64) -> Sql {
    let mut sql = Sql::new(tenant);
    sql.push(&format!(
        "select e.name, case when e.path is null then e.size when b.files <= {MAX_SUMMED} then b.size end as size from ("
    ));
    let side = |sql: &mut Sql, columns: &str, view: &str, parent: &str, name: &str| {
        sql.push(&format!("(select {columns} from {view} where tenant_id = $1 and not hidden and {parent} = "));
        sql.bind(folder_id);
        if let Some(after) = after {
            sql.push(&format!(" and {name} > ")).bind(after);
        }
        sql.push(&format!(" order by {name} limit ")).bind(limit).push(")");
    };
    sql.push("select * from (");
    side(&mut sql, "name, size, null as path, slate_id", "search_files", "folder_id", "name");
    sql.push(" union all ");
    side(&mut sql, "entry as name, null as size, path, slate_id", "folders", "parent_id", "entry");
    sql.push(") as both_kinds order by name limit ").bind(limit);
    sql.push(&format!(
        ") as e left join lateral (select count(*) as files, coalesce(sum(size), 0)::bigint as size from \
         (select size from search_files where tenant_id = $1 and not hidden and slate_id = e.slate_id \
          and path > e.path || '/' and path < e.path || '0' limit {}) as below) as b on e.path is not null order by e.name",
        MAX_SUMMED + 1
    ));
    sql
}
