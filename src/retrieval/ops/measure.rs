//! What the benchmark times on a connection: a search by itself, and the floor that it is held against.

use super::{Contents, Terms, asks, paths, store};
use crate::db::Tx;
use crate::error::Result;
use crate::item::Mode;
use crate::retrieval::found::Scope;
use crate::retrieval::modes::metatag::FIRST;
use crate::retrieval::request::Request;

/// The search statements of a request alone, without the heads and contents of what they find: the numbers of the first
/// `limit` files.
///
/// # Errors
/// Those of the database.
pub fn locate(tx: &mut Tx, scope: &Scope, request: &Request, limit: i64) -> Result<Vec<i64>> {
    let asks = asks(&scope.folder, request);
    let paths = paths(&asks, Mode::Files);
    let named = store::files_at(tx, scope.slate_id, &paths, Contents::None)?;
    let mut arms = store::arms_of(tx, scope, request, Terms::default(), limit <= FIRST / 8)?;
    let (others, _) = store::page(tx, scope, &mut arms, (None, &[], limit), (0, Contents::None))?;
    Ok(named.into_values().map(|file| file.id).chain(others.into_iter().map(|file| file.id)).collect())
}

/// The floor: one file, by primary key, sent as searches are. Tells whether it is there.
///
/// # Errors
/// Those of the database.
pub fn floor(tx: &mut Tx, file_id: i64) -> Result<bool> {
    store::is_file(tx, file_id)
}
