//! Hearing what commits tell of: one listening connection a server, however many wait.
//!
//! A transaction [notifies](super::Tx::notify) a topic, and whoever holds a [receiver](super::Db::listener) of it is woken,
//! on every server, once the transaction has committed. A wake-up tells that something may have changed and nothing more:
//! several may be folded into one, and all are woken when the connection was lost and is back.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Once, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use diesel::connection::SimpleConnection;
use diesel::pg::PgConnection;
use tokio::sync::watch;

use super::migrate;

/// The channel of the database; topics are its payloads.
pub const CHANNEL: &str = "slatebase";

/// How often the socket is looked at: the library gives no way to wait for it.
const LOOK: Duration = Duration::from_millis(20);

/// How long to wait before connecting again.
const PAUSE: Duration = Duration::from_millis(500);

/// Topics that are remembered before those that nobody waits for are forgotten.
const REMEMBERED: usize = 1000;

pub(super) struct Topics {
    url: String,
    started: Once,
    senders: Mutex<HashMap<String, watch::Sender<()>>>,
}

impl Topics {
    pub(super) fn new(url: String) -> Arc<Topics> {
        Arc::new(Topics { url, started: Once::new(), senders: Mutex::default() })
    }

    /// A receiver that is woken by every commit that notifies the topic from now on.
    pub(super) fn receiver(self: &Arc<Topics>, topic: &str) -> watch::Receiver<()> {
        let receiver = {
            let mut senders = self.senders.lock().unwrap_or_else(PoisonError::into_inner);
            if senders.len() >= REMEMBERED {
                senders.retain(|_, sender| sender.receiver_count() > 0);
            }
            senders.entry(topic.to_owned()).or_insert_with(|| watch::channel(()).0).subscribe()
        };
        self.started.call_once(|| {
            let topics = Arc::downgrade(self);
            thread::spawn(move || listen(&topics));
        });
        receiver
    }

    fn wake(&self, topic: &str) {
        let senders = self.senders.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = senders.get(topic) {
            sender.send_replace(());
        }
    }

    fn wake_all(&self) {
        let senders = self.senders.lock().unwrap_or_else(PoisonError::into_inner);
        senders.values().for_each(|sender| {
            sender.send_replace(());
        });
    }
}

/// Listens until the database's pool is gone.
fn listen(topics: &Weak<Topics>) {
    while let Some(alive) = topics.upgrade() {
        let connected = connect(&alive.url);
        // What was told of in between was not heard.
        alive.wake_all();
        drop(alive);
        match connected {
            Ok(connection) => hear(connection, topics),
            Err(error) => tracing::warn!("cannot listen to the database: {error}"),
        }
        thread::sleep(PAUSE);
    }
}

fn connect(url: &str) -> anyhow::Result<PgConnection> {
    let mut connection = migrate::establish(url)?;
    connection.batch_execute(&format!("set application_name = 'slatebase listener'; listen {CHANNEL}"))?;
    Ok(connection)
}

/// Hears until the connection is lost, or the pool is gone.
fn hear(mut connection: PgConnection, topics: &Weak<Topics>) {
    while let Some(alive) = topics.upgrade() {
        for notification in connection.notifications_iter() {
            match notification {
                Ok(notification) => alive.wake(&notification.payload),
                Err(_) => return,
            }
        }
        drop(alive);
        thread::sleep(LOOK);
    }
}
