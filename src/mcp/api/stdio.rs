//! The same servers over standard input and output, for one tenant of this machine's database.

use rmcp::ServiceExt;
use rmcp::transport::stdio;
use uuid::Uuid;

use super::rounds::Rounds;
use super::server::Slates;
use crate::app::App;
use crate::ctx::TenantId;
use crate::mcp::runner::caller::Local;

/// Whose slates are served, or which session.
#[derive(Debug, Clone, Copy)]
pub struct ServeAs {
    /// The tenant.
    pub tenant: TenantId,
    /// Its session whose loop is served; none for the slates.
    pub session: Option<Uuid>,
}

/// Serves until the input ends.
///
/// # Errors
/// When the client does not begin as the protocol asks, or the streams fail.
pub async fn serve(app: App, who: ServeAs) -> anyhow::Result<()> {
    let local = Some(Local { tenant: who.tenant, at: who.session });
    match who.session {
        Some(_) => Rounds { app, local }.serve(stdio()).await?.waiting().await?,
        None => Slates::new(app, local).serve(stdio()).await?.waiting().await?,
    };
    Ok(())
}
