//! Which metatags the files of a folder have (retrieval semantics §5): names, types, how many files, and of texts the most
//! frequent values.
//!
//! The files are counted in the database, in one pass over their tags. A folder of millions is not walked through to its
//! end: the first [`MAX_FILES`] are looked at, and the answer says that there are more.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::found::Scope;
use super::sql::Sql;

/// How many files are looked at.
pub const MAX_FILES: i64 = 100_000;
/// The most values of a metatag that are told.
pub const MAX_VALUES: i64 = 100;
/// The longest value that is told, in bytes.
pub const MAX_VALUE: usize = 1024;

/// A metatag that files have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Facet {
    /// Its name.
    #[schema(example = "category")]
    pub name: String,
    /// How many files have it.
    #[schema(example = 12)]
    pub files: i64,
    /// The types that it has, those of most files first.
    pub types: Vec<FacetType>,
    /// Of texts, and elements of arrays of texts, the most frequent, each counted once a file; those of more than
    /// 1024 bytes are left out.
    pub values: Vec<FacetValue>,
}

/// A type of a metatag.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FacetType {
    /// `string`, `string[]`, `number`, `boolean` or `object`.
    #[serde(rename = "type")]
    #[schema(example = "string")]
    pub name: String,
    /// How many files have it with this type.
    #[schema(example = 12)]
    pub files: i64,
}

/// A value of a metatag.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FacetValue {
    /// The text.
    #[schema(example = "security")]
    pub value: String,
    /// How many files have it.
    #[schema(example = 7)]
    pub files: i64,
}

/// The files that are looked at, those after the first [`MAX_FILES`] but for one left out.
fn looked_at(sql: &mut Sql, scope: &Scope, what: &str) {
    sql.push(&format!("select {what} from search_file_tags where tenant_id = $1 and not hidden and "));
    match scope.recursive {
        false => {
            sql.push("folder_id = ").bind(scope.folder_id).push(" order by name");
        }
        true => {
            sql.push("slate_id = ").bind(scope.slate_id);
            if let Some((first, end)) = scope.folder.below() {
                sql.push(" and path >= ").bind(first).push(" and path < ").bind(end);
            }
            sql.push(" order by path");
        }
    }
    sql.push(" limit ").bind(MAX_FILES + 1);
}

/// Counts the files, to one more than [`MAX_FILES`].
pub fn count(tenant: i64, scope: &Scope) -> Sql {
    let mut sql = Sql::new(tenant);
    sql.push("select count(*) as files from (");
    looked_at(&mut sql, scope, "1");
    sql.push(") as looked");
    sql
}

/// The statement: `name`, `files`, `types` and `values`, the last two as JSON, for the names after `after`, in byte order,
/// at most `limit`; at most `values` of each.
pub fn statement(tenant: i64, scope: &Scope, after: Option<&str>, limit: i64, values: i64) -> Sql {
    let mut sql = Sql::new(tenant);
    sql.push("with looked as materialized (");
    looked_at(&mut sql, scope, "tags, file_id");
    sql.push("), each as materialized (select f.file_id, t.key collate \"C\" as key, t.value, ");
    sql.push(
        "case jsonb_typeof(t.value) when 'array' then \
             case when jsonb_path_exists(t.value, '$[*] ? (@.type() != \"string\")') then 'object' else 'string[]' end \
         else jsonb_typeof(t.value) end as type ",
    );
    sql.push("from (select tags, file_id from looked limit ").bind(MAX_FILES);
    sql.push(") as f cross join lateral jsonb_each(f.tags) as t), names as materialized (");
    sql.push("select key, sum(files)::bigint as files, jsonb_agg(jsonb_build_object('type', type, 'files', files) ");
    sql.push("order by files desc, type collate \"C\") as types from (select key, type, count(*) as files from each ");
    if let Some(after) = after {
        sql.push("where key > ").bind(after).push(" ");
    }
    sql.push("group by key, type) as typed group by key order by key limit ").bind(limit);
    sql.push("), texts as (select key, value, files, row_number() over (partition by key order by files desc, value) as place ");
    sql.push(
        "from (select e.key, v.value collate \"C\" as value, count(distinct e.file_id) as files from each e ",
    );
    sql.push("cross join lateral (select e.value #>> '{}' as value where e.type = 'string' union all ");
    sql.push("select jsonb_array_elements_text(e.value) where e.type = 'string[]') as v ");
    sql.push(&format!(
        "where e.key in (select key from names) and octet_length(v.value) <= {MAX_VALUE} group by 1, 2) as counted) "
    ));
    sql.push("select n.key as name, n.files, n.types::text as types, coalesce((select ");
    sql.push(
        "jsonb_agg(jsonb_build_object('value', t.value, 'files', t.files) order by t.place) from texts t ",
    );
    sql.push("where t.key = n.key and t.place <= ").bind(values);
    sql.push("), '[]')::text as values from names n order by n.key");
    sql
}
