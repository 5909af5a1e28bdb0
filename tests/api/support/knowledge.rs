//! Slates for tests, written by the same use cases as any.

use chrono::{SubsecRound, Utc};
use serde_json::Value;
use slatebase::ctx::{Ctx, TenantId};
use slatebase::db::Tx;
use slatebase::error::Result;
use slatebase::files::ops::{Write, write_many};
use slatebase::metatags::Tags;
use slatebase::path::FilePath;
use slatebase::slates::NewSlate;
use uuid::Uuid;

use super::{Caller, Server};

impl Server {
    /// The command line's own caller, in the tenant of `caller`.
    pub fn local(&self, caller: &Caller) -> Ctx {
        let number = caller.token.as_deref().unwrap().split('_').nth(1).unwrap();
        Ctx::local(TenantId(number.parse().unwrap()), Utc::now().trunc_subsecs(6), Uuid::now_v7())
    }

    /// Runs use cases in one transaction of the tenant of `caller`, which takes as long as it needs.
    pub async fn tenant_tx<T: Send + 'static>(
        &self,
        caller: &Caller,
        work: impl Fn(&mut Tx, &Ctx) -> Result<T> + Send + 'static,
    ) -> T {
        let ctx = self.local(caller);
        self.app
            .db
            .tenant(ctx.tenant, move |tx| tx.without_timeout().and_then(|()| work(tx, &ctx)))
            .await
            .unwrap()
    }

    /// Makes a slate if it is not there and writes files: `{path: contents}` or `{path: {content, metatags}}`.
    pub async fn fill(&self, caller: &Caller, slate: &str, files: Value) {
        let slate = slate.to_owned();
        self.tenant_tx(caller, move |tx, ctx| {
            if slatebase::slates::ops::find(tx, ctx, &slate)?.is_none() {
                slatebase::slates::ops::put(tx, ctx, &slate, &NewSlate::default())?;
            }
            let writes = files.as_object().unwrap().iter().map(|(path, file)| {
                let content = file.get("content").unwrap_or(file).as_str().unwrap();
                let mut write = Write::new(FilePath::parse(path).unwrap(), content.as_bytes().to_vec());
                write.tags = file
                    .get("metatags")
                    .map(|tags| Tags::parse(tags.as_object().unwrap().clone(), "").unwrap().0);
                write
            });
            write_many(tx, ctx, &slate, writes.collect())?
                .into_iter()
                .try_for_each(|written| written.map(drop))
        })
        .await;
    }
}
