//! What stands below the protocol: who calls, and the workers of MCP sessions.

pub(super) mod caller;
pub(super) mod sessions;

/// Gives all the work of one message one patience with a busy database.
pub(super) fn patient<F: Future>(work: F) -> impl Future<Output = F::Output> {
    crate::db::patient(work)
}
