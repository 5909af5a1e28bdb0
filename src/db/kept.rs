//! Statements that are kept prepared.

use diesel::pg::{Pg, PgConnection};
use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};
use diesel::{QueryResult, RunQueryDsl};

/// A statement in SQL that each connection keeps as a prepared one, so that it is parsed, and soon planned, once: for
/// statements that name rows by their keys, where the plan for one value is the plan for all. A search is none.
#[derive(Debug, Clone)]
pub struct Kept<Q>(pub Q);

impl<Q: Query> Query for Kept<Q> {
    type SqlType = Q::SqlType;
}

impl<Q> QueryId for Kept<Q> {
    type QueryId = ();
    // Statements are told apart by their text.
    const HAS_STATIC_QUERY_ID: bool = false;
}

impl<Q: QueryFragment<Pg>> QueryFragment<Pg> for Kept<Q> {
    fn walk_ast<'b>(&'b self, out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        self.0.walk_ast(out)
    }

    fn is_safe_to_cache_prepared(&self, _: &Pg) -> QueryResult<bool> {
        Ok(true)
    }
}

impl<Q> RunQueryDsl<PgConnection> for Kept<Q> {}
