//! What a result tells of the files that it found, as SQL: the columns of a head, its contents, and whose authority holds.
//!
//! A statement that finds files goes on with these, so that finding and reading are one round trip. Small contents are in
//! the row of the file and cost nothing further. Large ones are read along as far as an even share of 16 MiB goes, and
//! by their hash afterwards where they are wanted all the same.

use super::sql::Sql;

/// Bytes of large contents that a statement reads along at most, over all its files.
const BUDGET: i64 = 16 << 20;

/// Whether contents are read along.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contents {
    /// None are.
    None,
    /// Those of so many files at most.
    Of(usize),
}

/// Columns of `files f` that a head is made of.
pub const COLUMNS: &str = "f.id, f.folder_id, f.path, f.version, f.size, f.sha256, f.media_type, f.is_text, \
    f.authority, f.modified_at";

impl Contents {
    /// The column `data` of `files f`.
    pub fn push(self, sql: &mut Sql) {
        match self {
            Contents::None => {
                sql.push("null::bytea as data");
            }
            Contents::Of(files) => {
                let share = BUDGET / i64::try_from(files.max(1)).unwrap_or(i64::MAX);
                sql.push("case when f.data is not null then f.data when f.size <= ").bind(share);
                sql.push(" then (select b.data from blobs b where b.tenant_id = $1 and b.sha256 = f.sha256) end as data");
            }
        }
    }
}

/// A part of a statement (`with recursive`): the authority of the folders above the files of `hit` that have none of their
/// own, by the nearest that has one, as one object by the numbers of the files' folders. A join by number would be a loop in a
/// loop wherever the planner expects few files.
pub const ABOVE: &str = "chain as ( \
         select o.id as start, o.parent_id, o.authority \
         from (select distinct folder_id from hit where authority is null) as h \
         cross join lateral (select * from folders o where o.tenant_id = $1 and o.id = h.folder_id limit 1) as o \
         union all \
         select c.start, o.parent_id, o.authority \
         from chain c join folders o on o.tenant_id = $1 and o.id = c.parent_id where c.authority is null), \
     above as (select jsonb_object_agg(start::text, authority) as by_folder from chain where authority is not null)";

/// The columns of a head of `hit`, beside [`ABOVE`].
pub const HEAD: &str = "hit.id, hit.path, hit.version, hit.size, hit.sha256, hit.media_type, hit.is_text, \
    coalesce(hit.authority, (select by_folder from above) ->> hit.folder_id::text) as authority, \
    hit.modified_at as last_modified, hit.data";

/// The statement that reads the heads of files by their numbers: [`HEAD`]. Of those that were deleted or hidden meanwhile
/// there is none.
pub fn by_number(tenant: i64, ids: &[i64], contents: Contents) -> Sql {
    let mut sql = Sql::new(tenant);
    sql.push(&format!("with recursive hit as materialized (select {COLUMNS}, "));
    contents.push(&mut sql);
    sql.push(" from unnest(").bind(ids);
    sql.push(
        ") as asked (id) cross join lateral (select * from files f \
         where f.tenant_id = $1 and f.id = asked.id and not f.hidden limit 1) as f), ",
    );
    sql.push(ABOVE).push(&format!(" select {HEAD} from hit"));
    sql
}
