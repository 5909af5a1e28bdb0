//! The union of the modes that select files (retrieval semantics §4.1): `union all` of one ordered, limited arm each,
//! grouped by file, the bits of the modes put together. A file among the first of the union is among the first of every
//! arm that selects it, so the bits are whole.

use super::found::{MAX_COUNTED, Scope};
use super::heads::{ABOVE, COLUMNS, Contents, HEAD};
use super::modes::{Arm, Frame};
use super::sql::Sql;

/// The statement that gives a page: `id`, `folder_id`, `key` and `bits` of the first `limit` files after `after` in order.
pub fn page(
    tenant: i64,
    scope: &Scope,
    arms: &[Arm],
    after: Option<&str>,
    except: &[i64],
    limit: i64,
) -> Sql {
    let mut sql = Sql::new(tenant);
    let frame = Frame::Page { after, except, limit };
    match arms {
        // In order, and each file once.
        [arm] => {
            sql.push("select id, folder_id, key, bits from ");
            arm.push(&mut sql, scope, frame);
            sql.push(" as arm order by key limit ").bind(limit);
        }
        arms => {
            sql.push("select id, folder_id, key, bit_or(bits) as bits from (");
            push_arms(&mut sql, scope, arms, frame);
            sql.push(") as arms group by id, folder_id, key order by key limit ").bind(limit);
        }
    }
    sql
}

/// The same statement, with the heads of the first `heads` files beside them: `id`, `folder_id`, `key` and `bits`, and the
/// columns of a [head](HEAD), null past the first and for a file that went meanwhile.
pub fn page_with_heads(page: Sql, heads: usize, contents: Contents) -> Sql {
    let Sql { text, binds } = page;
    let mut sql = Sql { text: String::new(), binds };
    sql.push("with recursive found as materialized (select *, row_number() over (order by key) as n from (");
    sql.push(&text);
    sql.push(") as page), place as (select distinct folder_id from found), ").push(ABOVE);
    // The number is that of the file that was found.
    sql.push(&format!(
        " select found.id, found.folder_id, found.key, found.bits, {} from found left join lateral (select {COLUMNS}, ",
        HEAD.strip_prefix("hit.id, ").unwrap_or(HEAD)
    ));
    contents.push(&mut sql);
    sql.push(" from files f where f.tenant_id = $1 and f.id = found.id and not f.hidden and found.n <= ");
    sql.bind(i64::try_from(heads).unwrap_or(i64::MAX)).push(" limit 1) as hit on true order by found.n");
    sql
}

/// The statement that tells by which arms files are selected that are known by name: `id`, and `bits`.
pub fn matching(tenant: i64, scope: &Scope, arms: &[Arm], paths: &[String], ids: &[i64]) -> Sql {
    let mut sql = Sql::new(tenant);
    sql.push("select id, bit_or(bits) as bits from (");
    push_arms(&mut sql, scope, arms, Frame::Only { paths, ids });
    sql.push(") as arms group by id");
    sql
}

/// The statement that counts the files after `after`: `files`, to one more than [`MAX_COUNTED`], and their `bytes`.
pub fn count(tenant: i64, scope: &Scope, arms: &[Arm], after: Option<&str>, except: &[i64]) -> Sql {
    let limit = MAX_COUNTED + 1;
    let mut sql = Sql::new(tenant);
    sql.push("select count(*) as files, coalesce(sum(f.size), 0)::bigint as bytes from (select id from (");
    push_arms(&mut sql, scope, arms, Frame::Page { after, except, limit });
    sql.push(") as arms group by id limit ").bind(limit);
    sql.push(") as matching join files f on f.tenant_id = $1 and f.id = matching.id");
    sql
}

fn push_arms(sql: &mut Sql, scope: &Scope, arms: &[Arm], frame: Frame<'_>) {
    for (i, arm) in arms.iter().enumerate() {
        if i > 0 {
            sql.push(" union all ");
        }
        arm.push(sql, scope, frame);
    }
}
