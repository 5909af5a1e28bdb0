//! Opening a session whose route has corpora at other hosts: they are asked while no transaction is held.

use super::ops::NewSession;
use super::ops::prefetch::{self, Begun};
use super::view::SessionView;
use crate::app::App;
use crate::corpora::pack::Unpacked;
use crate::corpora::runner::search;
use crate::ctx::Ctx;
use crate::error::Result;

/// Opens a session, and packs first what its route says.
///
/// # Errors
/// As [`prefetch::begin`]. What goes wrong while packing is no error: the session is opened as failed.
pub async fn open(app: &App, ctx: Ctx, new: NewSession) -> Result<SessionView> {
    let (begun_ctx, begun_new) = (ctx.clone(), new.clone());
    let begun = app.db.tenant(ctx.tenant, move |tx| prefetch::begin(tx, &begun_ctx, &begun_new)).await?;
    let corpora = match begun {
        Begun::Opened(view) => return Ok(*view),
        Begun::Ask(corpora) => corpora,
    };
    let mut fetched: Result<Vec<_>, Unpacked> = Ok(Vec::new());
    for corpus in corpora {
        let Ok(all) = &mut fetched else { break };
        match search(app, &ctx, &corpus, new.goal.as_ref()).await? {
            Ok(found) => all.push(found),
            Err(unpacked) => fetched = Err(unpacked),
        }
    }
    let tenant = ctx.tenant;
    app.db.tenant(tenant, move |tx| prefetch::finish(tx, &ctx, &new, fetched.clone())).await
}
