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

/// A part of a statement (`with recursive`): the authority that holds in the folders `place (folder_id)`, of the nearest folder
/// upwards that has one, as one object by the numbers of the folders. A join by number would be a loop in a loop
/// wherever the planner expects few folders.
pub const ABOVE: &str = "chain as ( \
         select o.id as start, o.parent_id, o.authority from place \
         cross join lateral (select * from folders o where o.tenant_id = $1 and o.id = place.folder_id limit 1) as o \
         union all \
         select c.start, o.parent_id, o.authority \
         from chain c \
         cross join lateral (select * from folders o where o.tenant_id = $1 and o.id = c.parent_id limit 1) as o \
         where c.authority is null), \
     above as (select jsonb_object_agg(start::text, authority) as by_folder from chain where authority is not null)";

/// The folders of the files of `hit` that have no authority of their own, for [`ABOVE`].
pub const PLACE: &str = "place as (select distinct folder_id from hit where authority is null), ";

/// The columns of a head of `hit`, beside [`ABOVE`].
pub const HEAD: &str = "hit.id, hit.path, hit.version, hit.size, hit.sha256, hit.media_type, hit.is_text, \
    coalesce(hit.authority, (select by_folder from above) ->> hit.folder_id::text) as authority, \
    hit.modified_at as last_modified, hit.data";

/// The statement that reads the heads of files by their numbers: [`HEAD`]. Of those that were deleted or hidden meanwhile
/// there is none. The authority is that of the `folders`, among which the files' own are.
pub fn by_number(tenant: i64, ids: &[i64], folders: &[i64], contents: Contents) -> Sql {
    let mut sql = Sql::new(tenant);
    sql.push("with recursive place as (select unnest(").bind(folders).push(") as folder_id), ").push(ABOVE);
    // No part of the statement holds the rows: contents go from the table to the caller.
    sql.push(&format!(" select {HEAD} from (select {COLUMNS}, "));
    contents.push(&mut sql);
    sql.push(" from files f where f.tenant_id = $1 and f.id = any(")
        .bind(ids)
        .push(") and not f.hidden) as hit");
    sql
}
