//! Who makes a call, from the request to the tool.
//!
//! Requests are authenticated before the protocol sees them. Within the request's own task [`CALLER`] tells who sent it, for
//! what opens and finds MCP sessions; to a tool, which runs in another task, the same travels with the message.

use std::cell::RefCell;

use chrono::{SubsecRound, Utc};
use rmcp::model::{ErrorData, Extensions};
use rmcp_actix_web::transport::http::request::Parts;
use uuid::Uuid;

use crate::ctx::{Ctx, TenantId};
use crate::error::Error;

tokio::task_local! {
    /// The request's.
    static CALLER: (Caller, RefCell<Option<Error>>);
}

/// The header that names an MCP session.
pub(in crate::mcp) const MCP_SESSION: &str = "mcp-session-id";

/// Who sent a request, and where to.
#[derive(Debug, Clone)]
pub(in crate::mcp) struct Caller {
    /// The key.
    pub ctx: Ctx,
    /// The session whose loop the address is; none at `/mcp`.
    pub at: Option<Uuid>,
}

impl Caller {
    /// Runs `work` for this caller; tells why it was refused, where it was refused below the protocol.
    pub async fn scope<T>(self, work: impl Future<Output = T>) -> (T, Option<Error>) {
        let told = async {
            let done = work.await;
            (done, CALLER.with(|(_, refused)| refused.take()))
        };
        CALLER.scope((self, RefCell::new(None)), told).await
    }

    /// The caller of the request whose task this is; none in tasks of the protocol's own.
    pub fn current() -> Option<Caller> {
        CALLER.try_with(|(caller, _)| caller.clone()).ok()
    }

    /// Keeps why the request is refused, for its answer.
    pub fn refuse(error: Error) {
        let _ = CALLER.try_with(|(_, refused)| refused.replace(Some(error)));
    }
}

/// Who calls a server that is not reached over HTTP: the command line.
#[derive(Debug, Clone, Copy)]
pub(in crate::mcp) struct Local {
    /// Whose slates it serves.
    pub tenant: TenantId,
    /// The session whose loop it is.
    pub at: Option<Uuid>,
}

impl Local {
    fn caller(self) -> Caller {
        let ctx = Ctx::local(self.tenant, Utc::now().trunc_subsecs(6), Uuid::now_v7());
        Caller { ctx, at: self.at }
    }
}

/// Who sent a message.
///
/// # Errors
/// When nobody did, which no message is without.
pub(in crate::mcp) fn caller(local: Option<Local>, message: &Extensions) -> Result<Caller, ErrorData> {
    let sent = || message.get::<Parts>()?.extensions.get::<Extensions>()?.get::<Caller>().cloned();
    local.map(Local::caller).or_else(sent).ok_or_else(|| ErrorData::invalid_request("nobody calls", None))
}

/// The MCP session that a message belongs to; none without one.
pub(in crate::mcp) fn mcp_session(message: &Extensions) -> Option<&str> {
    message.get::<Parts>()?.headers.get(MCP_SESSION)?.to_str().ok()
}
