//! Sends the statements of facets.

use diesel::QueryableByName;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Text};

use super::query;
use crate::db::Tx;
use crate::error::{Error, Result};
use crate::retrieval::facets::{self, Facet};
use crate::retrieval::found::Scope;

#[derive(QueryableByName)]
struct FacetRow {
    #[diesel(sql_type = Text)]
    name: String,
    #[diesel(sql_type = BigInt)]
    files: i64,
    #[diesel(sql_type = Text)]
    types: String,
    #[diesel(sql_type = Text)]
    values: String,
}

/// The metatags of the scope's files after the name `after`, by name, at most `limit`, each with at most `values`.
pub(in crate::retrieval) fn facets(
    tx: &mut Tx,
    scope: &Scope,
    after: Option<&str>,
    limit: i64,
    values: i64,
) -> Result<Vec<Facet>> {
    let rows: Vec<FacetRow> =
        query(&facets::statement(tx.tenant(), scope, after, limit, values)).load(tx.conn())?;
    let facet = |row: FacetRow| {
        Ok(Facet {
            name: row.name,
            files: row.files,
            types: serde_json::from_str(&row.types)?,
            values: serde_json::from_str(&row.values)?,
        })
    };
    rows.into_iter().map(facet).collect::<Result<_, serde_json::Error>>().map_err(Error::internal)
}

#[derive(QueryableByName)]
struct FilesRow {
    #[diesel(sql_type = BigInt)]
    files: i64,
}

/// How many files of the scope facets look at, to one more than they do.
pub(in crate::retrieval) fn count_tagged(tx: &mut Tx, scope: &Scope) -> Result<i64> {
    Ok(query(&facets::count(tx.tenant(), scope)).get_result::<FilesRow>(tx.conn())?.files)
}
