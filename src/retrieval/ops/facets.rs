//! Which metatags the files of a folder have.

use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::{Error, Result};
use crate::path::FolderPath;
use crate::retrieval::facets::{Facet, MAX_FILES};
use crate::retrieval::store;

/// Where, and which part of the answer.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The slate's name.
    pub slate: String,
    /// The folder.
    pub folder: FolderPath,
    /// Whether the folders below are looked at as well.
    pub recursive: bool,
    /// Names after this one.
    pub after: Option<String>,
    /// How many names.
    pub limit: i64,
    /// How many values of each.
    pub values: i64,
}

/// Facets, and of how many files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facets {
    /// By name, in byte order.
    pub items: Vec<Facet>,
    /// How many files were looked at.
    pub files: i64,
    /// Whether those are all.
    pub complete: bool,
}

/// The metatags of the files of a folder, or of all below it.
///
/// # Errors
/// [`Code::NotFound`](crate::error::Code::NotFound) when there is no such slate or folder.
pub fn facets(tx: &mut Tx, ctx: &Ctx, asked: &Asked) -> Result<Facets> {
    let scope = super::scope(tx, ctx, &asked.slate, &asked.folder, asked.recursive)?;
    let scope = scope.ok_or_else(Error::not_found)?;
    let files = store::count_tagged(tx, &scope)?;
    let items = store::facets(tx, &scope, asked.after.as_deref(), asked.limit, asked.values)?;
    Ok(Facets { items, files: files.min(MAX_FILES), complete: files <= MAX_FILES })
}
