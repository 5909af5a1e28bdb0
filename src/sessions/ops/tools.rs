//! A session's `retrieve` as a tool definition.

use serde_json::Value;
use uuid::Uuid;

use super::{Lock, load, terms};
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::{Code, Error, Result};
use crate::path::FolderPath;
use crate::retrieval::facets::Facet;
use crate::retrieval::ops::facets::{Asked, facets};
use crate::sessions::instructions::{About, MAX_TAGS, MAX_VALUES};
use crate::sessions::schema::compile_request_match;

/// What a model is told of a session's `retrieve`, and the schema of what it may ask. Where the prompt tells it as well, it is
/// the same.
///
/// # Errors
/// [`Code::NotFound`].
pub fn tool(tx: &mut Tx, ctx: &Ctx, id: Uuid) -> Result<(String, Value)> {
    let session = load(tx, ctx, id, Lock::None)?;
    let text = match session.terms.instructions {
        Some(text) => text,
        None => instructions(tx, ctx, &session.row.slate, &session.row.folder, &session.row.declaration)?,
    };
    Ok((text, session.terms.request_match))
}

/// What a model is told of retrieving by a stored declaration, now.
///
/// # Errors
/// Those of the database.
pub(super) fn instructions(
    tx: &mut Tx,
    ctx: &Ctx,
    slate: &str,
    folder: &str,
    declaration: &Value,
) -> Result<String> {
    let terms = terms(declaration)?;
    let schema = compile_request_match(&terms.request_match, "")
        .map_err(|wrong| Error::internal(anyhow::anyhow!("a stored schema: {}", wrong.detail)))?;
    let facets = tags(tx, ctx, slate, folder, terms.recursive)?;
    let about = About {
        slate,
        folder,
        recursive: terms.recursive,
        as_field: &terms.as_field,
        max_rounds: terms.max_rounds,
        granted: &schema.granted,
        facets: &facets,
    };
    Ok(about.text())
}

/// The tags of the folder's files; none where the folder is gone.
fn tags(tx: &mut Tx, ctx: &Ctx, slate: &str, folder: &str, recursive: bool) -> Result<Vec<Facet>> {
    let folder = FolderPath::parse(folder).map_err(Error::internal)?;
    let asked = Asked {
        slate: slate.to_owned(),
        folder,
        recursive,
        after: None,
        limit: MAX_TAGS,
        values: MAX_VALUES,
    };
    match facets(tx, ctx, &asked) {
        Ok(found) => Ok(found.items),
        Err(error) if error.code == Code::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}
