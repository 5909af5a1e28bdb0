//! `files`: files by path (retrieval semantics §2.3 and §3.1).

use crate::retrieval::heads::{ABOVE, COLUMNS, Contents, HEAD, PLACE};
use crate::retrieval::sql::Sql;

/// The statement that finds files at these paths from the slate's root, hidden ones too, which are to be refused: `key` (the
/// path that was asked for), `hidden`, and the [head](HEAD). With `by_nfc` the paths are in normal form C, and `nfc` is what
/// they are compared with.
pub fn look_up(tenant: i64, slate_id: i64, paths: Vec<String>, by_nfc: bool, contents: Contents) -> Sql {
    let column = if by_nfc { "nfc" } else { "path" };
    let mut sql = Sql::new(tenant);
    sql.push(&format!("with recursive hit as materialized (select asked.path as key, f.hidden, {COLUMNS}, "));
    contents.push(&mut sql);
    sql.push(" from unnest(").bind(paths);
    sql.push(") as asked (path) cross join lateral (select * from files f where f.tenant_id = $1 and f.slate_id = ");
    sql.bind(slate_id).push(&format!(" and f.{column} = asked.path limit 1) as f), {PLACE}{ABOVE} "));
    sql.push(&format!("select hit.key, hit.hidden, {HEAD} from hit"));
    sql
}
