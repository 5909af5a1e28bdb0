//! Files that a client watches. Their newest versions are looked up now and then, in one search a slate, so that a write
//! costs nothing for whoever watches, and it does not matter which server it was made on.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono::{SubsecRound, Utc};
use rmcp::model::ResourceUpdatedNotificationParam;
use rmcp::{Peer, RoleServer};

use super::resources;
use super::rounds::closed;
use crate::app::App;
use crate::ctx::Ctx;
use crate::error::{Code, Error, Result};
use crate::path::FolderPath;
use crate::provenance::citation::Address;
use crate::retrieval::found::{After, Window};
use crate::retrieval::ops::{Declared, open, search};
use crate::retrieval::request::Request;
use crate::slates;

/// How often they are looked up.
const PAUSE: Duration = Duration::from_secs(1);
/// How many one client may watch.
const MOST: usize = 1000;

/// Which bytes are at a path: the file's number and its version; none where there is no file.
type Head = Option<(i64, i64)>;

/// What one client watches.
#[derive(Default)]
pub(super) struct Watched {
    files: Mutex<BTreeMap<String, (Address, Head)>>,
    /// Whether they are looked up.
    followed: AtomicBool,
}

impl Watched {
    fn files(&self) -> MutexGuard<'_, BTreeMap<String, (Address, Head)>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Watches a file from now on.
    pub async fn add(&self, app: &App, ctx: &Ctx, uri: String) -> Result<()> {
        resources::may(ctx)?;
        let address = resources::address(&uri)?;
        let (asking, slate) = (ctx.clone(), address.slate.clone());
        app.db.tenant(ctx.tenant, move |tx| slates::ops::get(tx, &asking, slate.as_str()).map(drop)).await?;
        let heads = heads(app, ctx, vec![address.clone()]).await?;
        let head = heads.into_iter().next().flatten();
        let mut files = self.files();
        if files.len() >= MOST && !files.contains_key(&uri) {
            return Err(Error::new(Code::LimitReached, format!("a client may watch {MOST} files")));
        }
        files.insert(uri, (address, head));
        Ok(())
    }

    pub fn remove(&self, uri: &str) {
        self.files().remove(uri);
    }

    /// Tells the client of what changes, for as long as it listens; once, however often it is asked to.
    pub async fn tell(&self, app: App, ctx: Ctx, peer: Peer<RoleServer>) {
        if self.followed.swap(true, Ordering::Relaxed) {
            return;
        }
        let told =
            self.follow(&app, ctx, |uri| {
                let peer = &peer;
                async move {
                    peer.notify_resource_updated(ResourceUpdatedNotificationParam::new(uri)).await.is_ok()
                }
            });
        tokio::select! {
            () = told => {}
            () = closed(&peer) => {}
        }
    }

    /// Calls `changed` for each file that changes, until it says that nobody listens.
    pub async fn follow<F: Future<Output = bool>>(
        &self,
        app: &App,
        mut ctx: Ctx,
        changed: impl Fn(String) -> F,
    ) {
        let mut stopping = app.stopping.subscribe();
        loop {
            tokio::select! {
                () = tokio::time::sleep(PAUSE) => {}
                _ = stopping.wait_for(|stopping| *stopping) => return,
            }
            ctx.now = Utc::now().trunc_subsecs(6);
            let (uris, before): (Vec<_>, Vec<_>) = self.files().clone().into_iter().unzip();
            if uris.is_empty() {
                continue;
            }
            let addresses = before.iter().map(|(address, _)| address.clone()).collect();
            // What cannot be looked up now is looked up the next time.
            let Ok(now) = heads(app, &ctx, addresses).await else { continue };
            for ((uri, (_, before)), now) in uris.into_iter().zip(before).zip(now) {
                if now == before {
                    continue;
                }
                if let Some((_, head)) = self.files().get_mut(&uri) {
                    *head = now;
                }
                if !changed(uri).await {
                    return;
                }
            }
        }
    }
}

/// The heads of files, in the order given.
async fn heads(app: &App, ctx: &Ctx, addresses: Vec<Address>) -> Result<Vec<Head>> {
    let asking = ctx.clone();
    app.db
        .tenant(ctx.tenant, move |tx| {
            let mut slates: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
            for address in &addresses {
                slates.entry(address.slate.as_str()).or_default().push(address.path.as_str());
            }
            let mut found = BTreeMap::new();
            for (slate, paths) in slates {
                let files = Some(paths.iter().map(|path| (*path).to_owned()).collect());
                let request = Request { files, ..Request::default() };
                let declared = Declared { slate, folder: &FolderPath::root(), recursive: false };
                let Some(opened) = open(tx, &asking, declared, &request, false)? else { continue };
                let window = Window {
                    after: After::Asked(0),
                    limit: paths.len(),
                    count: false,
                    ahead: 0,
                    contents: false,
                };
                for placed in search(tx, opened, &request, &window)?.items {
                    if let Some(file) = placed.item.file() {
                        found.insert((slate.to_owned(), file.path.clone()), (file.file_id, file.version));
                    }
                }
            }
            let head = |address: &Address| {
                found.get(&(address.slate.as_str().to_owned(), address.path.as_str().to_owned())).copied()
            };
            Ok(addresses.iter().map(head).collect())
        })
        .await
}
