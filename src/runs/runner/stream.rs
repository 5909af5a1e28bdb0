//! A session's events as a stream, for as long as something may follow.
//!
//! No connection is held between two looks at the database. What waits to be sent is one page of events at most, however
//! slow the client is.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{Stream, unfold};
use tokio::sync::watch;
use uuid::Uuid;

use super::now;
use crate::app::App;
use crate::ctx::Ctx;
use crate::error::Result;
use crate::runs::ops;
use crate::sessions::event::Event;
use crate::sessions::ops::events::{self, topic};

/// Events that are read at once.
const PAGE: i64 = 100;
/// How often a line is sent while nothing happens, so that who is in between sees a connection that lives; the database is
/// looked at then too, should a notification have been lost.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// Part of the first event: how long to wait, in milliseconds, before connecting again. In a block of its own it would be an
/// empty event to some clients, and so would a comment: [`IDLE`] is a line without a block.
const RETRY: &str = "retry: 1000\n\n";
/// What is sent while nothing happens.
const IDLE: &str = ": nothing yet\n";

struct Watched {
    app: App,
    ctx: Ctx,
    session: Uuid,
    after: i64,
    changes: watch::Receiver<()>,
    stopping: watch::Receiver<bool>,
    page: Option<(Vec<Event>, bool)>,
}

/// The events after number `after`, written as Server-Sent Events. It ends when the session is finished and all is told,
/// when the key opens nothing any more, and when the server stops. None where nothing will ever follow.
///
/// # Errors
/// [`Code::NotFound`](crate::error::Code::NotFound).
pub async fn watch(
    app: &App,
    ctx: Ctx,
    session: Uuid,
    after: i64,
) -> Result<Option<impl Stream<Item = Result<Bytes, Infallible>> + use<>>> {
    // Before the first look, so that nothing comes between the two.
    let changes = app.db.listener(&topic(ctx.tenant, session));
    let stopping = app.stopping.subscribe();
    let mut watched = Watched { app: app.clone(), ctx, session, after, changes, stopping, page: None };
    let (events, finished) = watched.look().await?;
    if events.is_empty() && finished {
        return Ok(None);
    }
    watched.page = Some((events, finished));
    Ok(Some(unfold(Some((watched, true)), step)))
}

/// What is sent next; nothing once the stream has ended. The flag tells whether no event was sent yet.
async fn step(
    state: Option<(Watched, bool)>,
) -> Option<(Result<Bytes, Infallible>, Option<(Watched, bool)>)> {
    let (mut watched, mut first) = state?;
    let mut text = String::new();
    loop {
        let page = match watched.page.take() {
            Some(page) => page,
            // Whoever was cut off connects again, and is told then what is wrong.
            None => watched.look().await.ok()?,
        };
        let (events, finished) = page;
        watched.after = events.last().map_or(watched.after, |event| event.number);
        let more = !events.is_empty();
        for event in &events {
            text.push_str(&event.to_sse());
            if std::mem::take(&mut first) {
                text.truncate(text.len() - 1);
                text.push_str(RETRY);
            }
        }
        if finished || *watched.stopping.borrow() {
            return (!text.is_empty()).then(|| (Ok(text.into()), None));
        }
        if !text.is_empty() {
            return Some((Ok(text.into()), Some((watched, first))));
        }
        if !more {
            tokio::select! {
                changed = watched.changes.changed() => changed.ok()?,
                _ = watched.stopping.changed() => {}
                () = tokio::time::sleep(HEARTBEAT) => text.push_str(IDLE),
            }
        }
    }
}

impl Watched {
    async fn look(&mut self) -> Result<(Vec<Event>, bool)> {
        self.changes.mark_unchanged();
        let (ctx, session, after) = (self.ctx.clone(), self.session, self.after);
        let look = move |tx: &mut crate::db::Tx| {
            ops::check_key(tx, &ctx, now())?;
            events::after(tx, &ctx, session, after, PAGE)
        };
        self.app.db.tenant(self.ctx.tenant, look).await
    }
}
