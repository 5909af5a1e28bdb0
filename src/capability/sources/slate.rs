//! Files of the tenant's own slates.

use super::Source;
use crate::app::App;
use crate::capability::ops;
use crate::capability::outcome::Outcome;
use crate::capability::request::Request;
use crate::capability::target::FileTarget;
use crate::ctx::Ctx;
use crate::error::Result;

/// A file in one of the slates.
pub struct Slate<'a>(pub &'a FileTarget);

impl Source for Slate<'_> {
    async fn fetch(&self, app: &App, ctx: &Ctx, _: &Request) -> Result<Outcome> {
        let (target, asking) = (self.0.clone(), ctx.clone());
        app.db.tenant(ctx.tenant, move |tx| ops::read_file(tx, &asking, &target)).await
    }
}
