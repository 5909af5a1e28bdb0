//! Sends the statement that looks up what a request needs before it is searched for.

use std::collections::HashMap;

use diesel::QueryableByName;
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Bool, Nullable, Text};

use super::{MaybeHeadRow, Named, files_by_spelling, query};
use crate::authority::Authority;
use crate::db::Tx;
use crate::db::kept::Kept;
use crate::error::{Error, Result};
use crate::path::FolderPath;
use crate::retrieval::found::Scope;
use crate::retrieval::heads::Contents;
use crate::retrieval::look::{Declared, statement};
use crate::retrieval::request::Request;

#[derive(QueryableByName)]
struct LookRow {
    #[diesel(sql_type = BigInt)]
    slate_id: i64,
    #[diesel(sql_type = Text)]
    slate: String,
    #[diesel(sql_type = Nullable<Text>)]
    slate_authority: Option<String>,
    #[diesel(sql_type = Bool)]
    volatile: bool,
    #[diesel(sql_type = Nullable<BigInt>)]
    max_age_seconds: Option<i64>,
    #[diesel(sql_type = BigInt)]
    folder_id: i64,
    #[diesel(sql_type = Text)]
    folder: String,
    #[diesel(sql_type = Nullable<Array<BigInt>>)]
    metatag_ids: Option<Vec<i64>>,
    #[diesel(sql_type = Nullable<Text>)]
    filter_ids: Option<String>,
    #[diesel(sql_type = Nullable<Text>)]
    key: Option<String>,
    #[diesel(sql_type = Nullable<Bool>)]
    hidden: Option<bool>,
    #[diesel(sql_type = Nullable<BigInt>)]
    id: Option<i64>,
    #[diesel(embed)]
    head: MaybeHeadRow,
}

/// A declared folder, and what a request names in it and needs before it is searched for.
#[derive(Debug)]
pub(in crate::retrieval) struct Looked {
    pub scope: Scope,
    /// The files at paths, those found by other spellings too.
    pub files: HashMap<String, Named>,
    pub terms: Terms,
}

/// The numbers of the terms that the tests of a request need; none where they were not looked up.
#[derive(Debug, Default)]
pub(in crate::retrieval) struct Terms {
    pub(super) metatag: Option<Option<Vec<i64>>>,
    pub(super) filter: Option<Vec<Option<Vec<i64>>>>,
}

/// Looks up a declared folder by its very path with what a request needs, unless it is hidden or not there.
pub(in crate::retrieval) fn look(
    tx: &mut Tx,
    declared: Declared<'_>,
    request: &Request,
    paths: &[&str],
    contents: Contents,
) -> Result<Option<Looked>> {
    let asked = paths.iter().map(|path| path.to_string()).collect();
    let sql = statement(tx.tenant(), declared, request, asked, contents);
    // All of it is by key, or in the one index that a pattern can be asked of; but a filter's statement is as long as the
    // filter, and seldom sent twice.
    let rows: Vec<LookRow> = match request.filter.is_none() {
        true => Kept(query(&sql)).load(tx.conn())?,
        false => query(&sql).load(tx.conn())?,
    };
    let mut looked = None;
    for row in rows {
        let looked = match &mut looked {
            Some(looked) => looked,
            none => none.insert(Looked {
                terms: Terms {
                    metatag: request.metatag.is_some().then_some(row.metatag_ids),
                    filter: (row.filter_ids.as_deref().map(serde_json::from_str).transpose())
                        .map_err(Error::internal)?,
                },
                scope: Scope {
                    slate_id: row.slate_id,
                    slate: row.slate,
                    folder_id: row.folder_id,
                    folder: FolderPath::parse(&row.folder).map_err(Error::internal)?,
                    recursive: declared.recursive,
                    authority: (row.slate_authority.as_deref().and_then(Authority::from_word))
                        .unwrap_or_default(),
                    volatile: row.volatile,
                    max_age_seconds: row.max_age_seconds,
                },
                files: HashMap::new(),
            }),
        };
        if let (Some(id), Some(key)) = (row.id, row.key)
            && let Some(head) = row.head.of(id)
        {
            let named = Named {
                id,
                path: head.path.clone(),
                size: head.size,
                hidden: row.hidden == Some(true),
                head: Some(head),
            };
            looked.files.insert(key, named);
        }
    }
    if let Some(looked) = &mut looked {
        files_by_spelling(tx, looked.scope.slate_id, paths, contents, &mut looked.files)?;
    }
    Ok(looked)
}
