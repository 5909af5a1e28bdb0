//! The running server, the same for `serve`, `demo` and the tests.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use actix_web::HttpServer;
use actix_web::dev::ServerHandle;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::metrics::recorder;
use crate::app::App;
use crate::config::Config;
use crate::maintenance::runner;
use crate::mcp::api::Mcp;

/// How long requests in flight may take to end once the server is told to stop, in seconds.
const SHUTDOWN_SECONDS: u64 = 30;

/// How long a client may take to send the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// How long an idle connection is kept.
const KEEP_ALIVE: Duration = Duration::from_secs(75);

/// How often metrics are folded together; between two scrapes they would grow without end.
const UPKEEP: Duration = Duration::from_secs(5);

/// A server that takes requests.
pub struct Running {
    /// Where.
    pub address: SocketAddr,
    handle: ServerHandle,
    server: JoinHandle<io::Result<()>>,
    upkeep: JoinHandle<()>,
    maintenance: Option<JoinHandle<()>>,
    stopping: watch::Sender<bool>,
}

/// Listens, and serves until told to stop.
///
/// # Errors
/// When the address cannot be listened on.
pub async fn run(app: App, config: &Config) -> anyhow::Result<Running> {
    let listener = TcpListener::bind(&config.listen)
        .map_err(|error| anyhow::anyhow!("cannot listen on {}: {error}", config.listen))?;
    let address = listener.local_addr()?;
    // More threads that use the database than it has connections for would starve each other.
    let pool = config.database.pool_size as usize;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let workers = config.workers.map_or(cores, usize::from).min(pool);
    let metrics = recorder()?;
    let db = app.db.clone();
    let stopping = app.stopping.clone();
    let mcp = Mcp::new(&app);
    let server = HttpServer::new(move || super::app(app.clone(), mcp.clone()))
        .workers(workers)
        .worker_max_blocking_threads(pool / workers)
        .client_request_timeout(HEAD_TIMEOUT)
        .keep_alive(KEEP_ALIVE)
        // An event, or the last line of a stream, waits for no acknowledgement of what went before.
        .tcp_nodelay(true)
        .shutdown_timeout(SHUTDOWN_SECONDS)
        .disable_signals()
        .listen(listener)?
        .run();
    let handle = server.handle();
    let upkeep = tokio::spawn(async move {
        loop {
            tokio::time::sleep(UPKEEP).await;
            metrics.run_upkeep();
        }
    });
    let interval = Duration::from_secs(60 * u64::from(config.maintain_minutes));
    let maintenance = (!interval.is_zero()).then(|| tokio::spawn(runner::now_and_then(db, interval)));
    let server = tokio::spawn(server);
    Ok(Running { address, handle, server, upkeep, maintenance, stopping })
}

impl Running {
    /// Takes no more requests, and returns when those in flight have ended, or after half a minute.
    pub async fn stop(self) {
        self.stopping.send_replace(true);
        self.handle.stop(true).await;
        self.upkeep.abort();
        self.maintenance.iter().for_each(JoinHandle::abort);
    }

    /// Drops everything at once.
    pub fn kill(&self) {
        self.stopping.send_replace(true);
        drop(self.handle.stop(false));
        self.upkeep.abort();
        self.maintenance.iter().for_each(JoinHandle::abort);
    }

    /// Serves until SIGTERM or SIGINT, then ends as [`stop`](Running::stop) does. `ready` is called once signals are
    /// heard, so that whoever is told of the address may send one.
    ///
    /// # Errors
    /// When signals cannot be heard, or the server fails.
    pub async fn until_signal(mut self, ready: impl FnOnce() -> io::Result<()>) -> anyhow::Result<()> {
        use tokio::signal::unix::{SignalKind, signal};
        let (mut terminate, mut interrupt) =
            (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        ready()?;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            ended = &mut self.server => return Ok(ended??),
        }
        tracing::info!("finishing what is in flight");
        self.stop().await;
        Ok(())
    }
}
