//! Opening a session whose route has corpora at other hosts: they are asked while no transaction is held.

use super::ops::NewSession;
use super::ops::prefetch::{self, Begun};
use super::view::SessionView;
use crate::app::App;
use crate::corpora::pack::Unpacked;
use crate::corpora::runner::search;
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::Result;

/// Opens a session, and packs first what its route says.
///
/// # Errors
/// As [`prefetch::begin`]. What goes wrong while packing is no error: the session is opened as failed.
pub async fn open(app: &App, ctx: Ctx, new: NewSession) -> Result<SessionView> {
    let (begun_ctx, begun_new, public) = (ctx.clone(), new.clone(), app.public_url.clone());
    let begin = move |tx: &mut Tx| prefetch::begin(tx, &begun_ctx, &begun_new, public.as_ref());
    let begun = app.db.tenant(ctx.tenant, begin).await?;
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
    let (tenant, public) = (ctx.tenant, app.public_url.clone());
    let finish = move |tx: &mut Tx| prefetch::finish(tx, &ctx, &new, public.as_ref(), fetched.clone());
    app.db.tenant(tenant, finish).await
}
