//! What every test stands on: the real server, on a port of its own, over a database of its own.

use std::future::IntoFuture;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Command, FromArgMatches};
use diesel::PgConnection;
use futures_util::future::join_all;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use slatebase::app::App;
use slatebase::config::Config;
use slatebase::db::Db;
use slatebase::http::server::{self, Running};

mod client;
pub mod cluster;
pub mod contract;
mod host;
mod invariants;
mod knowledge;
pub mod model;

#[allow(unused_imports, reason = "for signatures of helpers")]
pub use client::{Caller, Reply, Request};
#[allow(unused_imports, reason = "for signatures of helpers")]
pub use host::{Asked, Host};

/// What the tests' secrets are encrypted under.
pub const SECRETS_KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
pub const OPERATOR_TOKEN: &str = "operator-token-of-the-tests";

/// A server, stopped with this, and its database dropped.
pub struct Server {
    /// Holds the operator token.
    pub operator: Caller,
    pub app: App,
    config: Config,
    running: Running,
    database: Arc<cluster::Database>,
}

impl Server {
    pub async fn start() -> Server {
        Server::start_with(|_| {}).await
    }

    /// A server whose configuration is changed first.
    pub async fn start_with(change: impl FnOnce(&mut Config)) -> Server {
        let database = tokio::task::spawn_blocking(cluster::Database::create).await.unwrap();
        Server::start_over(database, change).await
    }

    /// The same over a database that is there already.
    pub async fn start_over(database: cluster::Database, change: impl FnOnce(&mut Config)) -> Server {
        let mut config = config();
        change(&mut config);
        let db = Db::connect(&config.database.pool(database.url())).unwrap();
        let app = App::new(db, &config).unwrap();
        let running = server::run(app.clone(), &config).await.unwrap();
        drop(slatebase::runs::runner::start(&app));
        let operator = Caller::new(format!("http://{}", running.address), Some(OPERATOR_TOKEN.into()));
        Server { operator, app, config, running, database: Arc::new(database) }
    }

    /// Makes a tenant, and gives a caller with a key that may do everything in it.
    pub async fn tenant(&self, name: &str) -> Caller {
        self.operator.post("/v1/tenants").json(json!({"name": name})).await.expect(201);
        self.key(name, json!({"scopes": ["read", "write", "retrieve", "admin"]})).await
    }

    /// A server with the tenant `acme`, which has the empty slate `K`, and a caller who may do everything in it.
    pub async fn with_slate() -> (Server, Caller) {
        let server = Server::start().await;
        let caller = server.tenant("acme").await;
        caller.put("/v1/slates/K").await.expect(201);
        (server, caller)
    }

    /// A caller with a new key of the tenant; a label is given where `key` has none.
    pub async fn key(&self, tenant: &str, mut key: Value) -> Caller {
        if key["label"].is_null() {
            key["label"] = json!("test");
        }
        let made = self.operator.post(&format!("/v1/tenants/{tenant}/keys")).json(key).await.ok(201);
        self.operator.with_token(made["token"].as_str().unwrap())
    }

    /// Ends it as a signal would.
    pub async fn stop(self) {
        self.app.stopping.send_replace(true);
        // Those who run sessions give back what they hold.
        tokio::time::sleep(Duration::from_millis(500)).await;
    }

    /// The database, which outlives the server for as long as this is held.
    pub fn database(&self) -> Arc<cluster::Database> {
        self.database.clone()
    }

    /// As the service's own login.
    pub fn url(&self) -> String {
        self.database.url()
    }

    /// What another server over the same database would be run with.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Names the database, as the service's own login.
    pub fn service_url(&self) -> String {
        self.database.url()
    }

    /// Names the database, as the superuser.
    pub fn superuser_url(&self) -> String {
        self.database.superuser_url()
    }

    /// Another server over the same database, with a pool of its own, and a caller of it with the same token.
    pub async fn beside(&self, caller: &Caller) -> (Running, Caller) {
        let db = Db::connect(&self.config.database.pool(self.database.url())).unwrap();
        let app = App::new(db, &self.config).unwrap();
        let running = server::run(app.clone(), &self.config).await.unwrap();
        drop(slatebase::runs::runner::start(&app));
        let caller = Caller::new(format!("http://{}", running.address), caller.token.clone());
        (running, caller)
    }

    /// The same with a configuration that is changed first.
    pub async fn beside_with(&self, caller: &Caller, change: impl FnOnce(&mut Config)) -> (Running, Caller) {
        let mut config = self.config.clone();
        change(&mut config);
        let db = Db::connect(&config.database.pool(self.database.url())).unwrap();
        let running = server::run(App::new(db, &config).unwrap(), &config).await.unwrap();
        let caller = Caller::new(format!("http://{}", running.address), caller.token.clone());
        (running, caller)
    }

    /// Makes many files `c…` beside the one at `path`, which they are copies of.
    pub fn copies(&self, path: &str, count: u32) {
        self.database.copies(path, count);
    }

    /// A connection that sees everything.
    pub fn superuser(&self) -> PgConnection {
        self.database.superuser()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.running.kill();
    }
}

fn config() -> Config {
    let command = Config::augment_args(Command::new("slatebase"));
    let listen = ["slatebase", "--listen", "127.0.0.1:0", "--operator-token", OPERATOR_TOKEN];
    let small = ["--pool-size", "4", "--workers", "1", "--max-runs", "0", "--secrets-key", SECRETS_KEY];
    Config::from_arg_matches(&command.get_matches_from(listen.into_iter().chain(small))).unwrap()
}

/// The replies to requests that are all sent at once.
pub async fn at_once(requests: impl IntoIterator<Item = Request>) -> Vec<Reply> {
    join_all(requests.into_iter().map(IntoFuture::into_future)).await
}

/// A path as a URL holds it.
pub fn in_url(path: &str) -> String {
    let names = path.split('/').map(|name| utf8_percent_encode(name, NON_ALPHANUMERIC).to_string());
    names.collect::<Vec<_>>().join("/")
}

/// Waits for something that the server does, and fails if it does not.
pub async fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    for _ in 0..3000 {
        if done() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never: {what}");
}
