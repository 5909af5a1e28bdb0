//! What is done with metatags apart from files: their terms are numbered.

use std::collections::{BTreeSet, HashMap};

use super::store;
use super::terms::Term;
use crate::db::Tx;
use crate::error::Result;

/// The number of each term; those that the dictionary lacks are made.
///
/// # Errors
/// Those of the database.
pub fn intern<'a>(tx: &mut Tx, terms: &BTreeSet<Term<'a>>) -> Result<HashMap<Term<'a>, i64>> {
    store::intern(tx, terms)
}
