//! What is done with metatags apart from files: their terms are numbered.

use std::collections::{BTreeSet, HashMap};

use super::store;
use super::terms::Term;
use crate::db::Tx;
use crate::error::Result;

/// Makes the transaction one of the tenant's writers, which what drops unused terms and what purges contents waits for, and
/// which wait for these: nobody takes away what a writer has just found to be there.
///
/// # Errors
/// Those of the database.
pub fn hold_writers(tx: &mut Tx) -> Result<()> {
    store::hold_writers(tx, true)
}

/// Waits for the tenant's writers, and holds off others until the transaction ends.
///
/// # Errors
/// Those of the database.
pub fn hold_off_writers(tx: &mut Tx) -> Result<()> {
    store::hold_writers(tx, false)
}

/// The number of each term; the caller is a [writer](hold_writers). those that the dictionary lacks are made.
///
/// # Errors
/// Those of the database.
pub fn intern<'a>(tx: &mut Tx, terms: &BTreeSet<Term<'a>>) -> Result<HashMap<Term<'a>, i64>> {
    store::intern(tx, terms)
}
