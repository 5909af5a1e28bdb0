//! The database: one pool, and the only doors to a connection.
//!
//! * [`Db::tenant`] opens a transaction for one tenant: `app.tenant_id` is set for that transaction alone, and row-level
//!   security and the search views read it. Every use case goes through it.
//! * [`Db::recording`] is the same for what only reads, and records what it gave.
//! * [`Db::operator`] opens one that may list and make tenants, and sees nothing that a tenant owns.
//! * [`Db::anonymous`] opens none: it serves to look one key up, and to ask whether the database is there.
//! * [`Db::listener`] hears what commits [tell of](Tx::notify), on one connection a server (`listen`).
//!
//! The role behind the pool owns no table and cannot bypass row-level security; [`connect`](Db::connect) refuses any
//! that can ([`roles`]). Waiting is bounded: a request that gets no connection in time is refused as overload, so that
//! no thread ever sits and waits for one.
//!
//! Searches are sent as `diesel::sql_query`, which is never kept as a prepared statement: Postgres would turn such a
//! statement generic after five runs, and read a thousand times as much. What is read by key is [`kept`].

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use diesel::RunQueryDsl;
use diesel::connection::{AnsiTransactionManager, SimpleConnection, TransactionManager};
use diesel::pg::PgConnection;
use diesel::r2d2::{ConnectionManager, CustomizeConnection};
use tokio::sync::{Semaphore, watch};

use crate::ctx::TenantId;
use crate::error::{Code, Error, Result};

pub mod embedded;
mod errors;
pub mod kept;
mod listen;
pub mod measure;
pub mod migrate;
pub mod remote;
pub mod roles;
#[allow(missing_docs)]
pub mod schema;

pub use listen::CHANNEL;

/// How long a request waits for connections, all together, before it is refused as overload.
const PATIENCE: Duration = Duration::from_millis(1500);

tokio::task_local! {
    /// What is left of a request's patience.
    static LEFT: Cell<Duration>;
}

/// Gives all the work of one request one patience, however many transactions it needs. Within the work of a request,
/// what is left of it goes on; elsewhere each transaction has a patience of its own.
pub fn patient<F: Future>(work: F) -> impl Future<Output = F::Output> {
    LEFT.scope(Cell::new(patience()), work)
}

fn patience() -> Duration {
    LEFT.try_with(Cell::get).unwrap_or(PATIENCE)
}

/// How often a transaction that met another is run before its caller is told.
const ATTEMPTS: usize = 4;

/// A transaction of one tenant. Every statement names `tenant_id = $1` as well, so that a distributed database can send
/// it to one shard.
pub struct Tx<'a> {
    connection: &'a mut PgConnection,
    tenant: TenantId,
    time: Time,
}

/// What a transaction may take, all its statements and what is done between them together.
#[derive(Debug, Clone, Copy)]
struct Time {
    /// When it has to end; `None` where it may take as long as it needs.
    end: Option<Instant>,
    /// What a statement was last told that it may take.
    told: Duration,
    /// Whether it was stopped for having taken too long.
    over: bool,
}

impl Time {
    fn new(limit: Duration) -> Time {
        Time { end: Some(Instant::now() + limit), told: limit, over: false }
    }

    /// What the next statement is to be told, where that differs enough to be worth a round trip.
    fn untold(&mut self) -> Option<Duration> {
        let left = self.end?.saturating_duration_since(Instant::now());
        if self.told.saturating_sub(left) < self.told / 8 {
            return None;
        }
        self.told = left;
        Some(left)
    }
}

impl Tx<'_> {
    /// The tenant, as statements bind it.
    pub fn tenant(&self) -> i64 {
        self.tenant.0
    }

    /// The connection to run statements on. Each statement may take what is left of the transaction's time, to within an
    /// eighth; once nothing is left, the transaction is one in which every further statement fails.
    pub fn conn(&mut self) -> &mut PgConnection {
        if let Some(left) = self.time.untold() {
            let told = match left.as_millis() {
                0 => {
                    self.time.over = true;
                    "do $$ begin raise exception 'statement timeout of the transaction'; end $$".into()
                }
                left => format!("set local statement_timeout = {left}"),
            };
            // What it says of the transaction the next statement says again.
            let _ = self.connection.batch_execute(&told);
        }
        self.connection
    }

    /// Lets the transaction take as long as it needs: what restructures a whole slate takes as long as that is large.
    ///
    /// # Errors
    /// Those of the database.
    pub fn without_timeout(&mut self) -> Result<()> {
        self.time.end = None;
        Ok(self.connection.batch_execute("set local statement_timeout = 0")?)
    }

    /// Prepares for writing rows that are named by their keys. Statements are planned for any value from here on, so that
    /// each row is looked up by its key: for a tenant or a slate that the statistics do not know yet, the planner expects
    /// no rows at all, and takes whichever index begins with the tenant. Tables that have grown much are analyzed first.
    ///
    /// # Errors
    /// Those of the database.
    pub fn write_by_key(&mut self) -> Result<()> {
        Ok(self
            .connection
            .batch_execute("set local plan_cache_mode = force_generic_plan; select freshen_statistics()")?)
    }

    /// Wakes whoever [listens](Db::listener) to the topic, on every server, once this transaction has committed.
    ///
    /// # Errors
    /// Those of the database.
    pub fn notify(&mut self, topic: &str) -> Result<()> {
        diesel::sql_query("select pg_notify($1, $2)")
            .bind::<diesel::sql_types::Text, _>(listen::CHANNEL)
            .bind::<diesel::sql_types::Text, _>(topic)
            .execute(self.connection)?;
        Ok(())
    }

    /// Works for another tenant from here on; for the operator, who looks a tenant up and then writes its keys.
    pub fn enter(&mut self, tenant: TenantId) -> Result<()> {
        self.tenant = tenant;
        Ok(self.connection.batch_execute(&format!("set local app.tenant_id = '{}'", tenant.0))?)
    }
}

/// The pool and its doors. Cheap to clone.
#[derive(Clone)]
pub struct Db {
    pool: r2d2::Pool<ConnectionManager<PgConnection>>,
    permits: Arc<Semaphore>,
    durable_queries: bool,
    topics: Arc<listen::Topics>,
    time_limit: Duration,
}

/// What is set on every connection, once.
#[derive(Debug)]
struct Settings {
    time_limit: Duration,
}

impl CustomizeConnection<PgConnection, diesel::r2d2::Error> for Settings {
    fn on_acquire(&self, connection: &mut PgConnection) -> Result<(), diesel::r2d2::Error> {
        // Pages are mostly in memory, where one is as near as the next: at the default of 4 the planner walks through
        // tens of thousands of files in order rather than look two thousand up. A worker that is started for a page of
        // results costs more than the page, and to compile a statement takes longer than to run it.
        // A transaction that asks nothing for as long as it may take as a whole is stuck, and the database ends it; one
        // that waits for a busy processor is not, however little it may take.
        let silence = self.time_limit.max(Duration::from_secs(10));
        let set = format!(
            "set random_page_cost = 1.1; set max_parallel_workers_per_gather = 0; set jit = off; \
             set statement_timeout = {}; set idle_in_transaction_session_timeout = {}; set timezone = 'UTC'; \
             set application_name = 'slatebase'",
            self.time_limit.as_millis(),
            silence.as_millis()
        );
        connection.batch_execute(&set).map_err(diesel::r2d2::Error::QueryError)
    }
}

/// How the pool is made.
#[derive(Debug, Clone)]
pub struct PoolOptions {
    /// A libpq connection URL, of the service's own login.
    pub url: String,
    /// Connections at most.
    pub size: u32,
    /// No statement runs longer, and no transaction, all its statements together.
    pub statement_timeout: Duration,
    /// Whether the record of a query is on disk before the query is answered, as all else is.
    pub durable_queries: bool,
}

impl Db {
    /// Connects, and checks that the login can bypass nothing.
    ///
    /// # Errors
    /// When the database cannot be reached, or the login has a right that is too much, which is named.
    pub fn connect(options: &PoolOptions) -> anyhow::Result<Db> {
        let mut first = migrate::establish(&options.url)?;
        roles::refuse_powerful(&mut first)?;
        drop(first);
        let pool = r2d2::Pool::builder()
            .max_size(options.size)
            .min_idle(Some(1))
            .connection_timeout(Duration::from_secs(5))
            .test_on_check_out(false)
            .connection_customizer(Box::new(Settings { time_limit: options.statement_timeout }))
            .build(ConnectionManager::new(&options.url))?;
        Ok(Db {
            permits: Arc::new(Semaphore::new(options.size as usize)),
            pool,
            durable_queries: options.durable_queries,
            topics: listen::Topics::new(options.url.clone()),
            time_limit: options.statement_timeout,
        })
    }

    /// A receiver that is woken by every commit that [notifies](Tx::notify) the topic from now on, on whichever server. It
    /// may be woken for nothing. The first one opens the connection that all of them share.
    pub fn listener(&self, topic: &str) -> watch::Receiver<()> {
        self.topics.receiver(topic)
    }

    /// Runs `work` in a transaction of `tenant` on the blocking pool. `work` runs again when it met another write, so it
    /// must leave no trace but through the transaction.
    ///
    /// # Errors
    /// What `work` returns; [`Code::Overloaded`] when no connection comes free in time.
    pub async fn tenant<T, F>(&self, tenant: TenantId, mut work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnMut(&mut Tx) -> Result<T> + Send + 'static,
    {
        self.blocking(move |db| db.transaction(Door::Tenant(tenant), &mut work)).await
    }

    /// The same for work that writes nothing but the record of what it gives. The commit may return before that is on disk,
    /// unless the service is set to wait for every one: a crash may lose the records of its last moments.
    ///
    /// # Errors
    /// As [`Db::tenant`].
    pub async fn recording<T, F>(&self, tenant: TenantId, mut work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnMut(&mut Tx) -> Result<T> + Send + 'static,
    {
        self.blocking(move |db| db.transaction(Door::Recording(tenant), &mut work)).await
    }

    /// The same as [`Db::tenant`] for a caller that is on a thread of its own, such as the command line.
    ///
    /// # Errors
    /// As [`Db::tenant`].
    pub fn tenant_blocking<T>(
        &self,
        tenant: TenantId,
        mut work: impl FnMut(&mut Tx) -> Result<T>,
    ) -> Result<T> {
        self.transaction(Door::Tenant(tenant), &mut work)
    }

    /// Runs `work` as the operator: it sees the tenants, and of each only what it [enters](Tx::enter).
    ///
    /// # Errors
    /// As [`Db::tenant`].
    pub async fn operator<T, F>(&self, mut work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnMut(&mut Tx) -> Result<T> + Send + 'static,
    {
        self.blocking(move |db| db.transaction(Door::Operator, &mut work)).await
    }

    /// The same for a caller that is on a thread of its own.
    ///
    /// # Errors
    /// As [`Db::tenant`].
    pub fn operator_blocking<T>(&self, mut work: impl FnMut(&mut Tx) -> Result<T>) -> Result<T> {
        self.transaction(Door::Operator, &mut work)
    }

    /// Runs one statement outside of any tenant. It may run again, on another connection.
    ///
    /// # Errors
    /// As [`Db::tenant`].
    pub async fn anonymous<T, F>(&self, mut work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnMut(&mut PgConnection) -> Result<T> + Send + 'static,
    {
        self.blocking(move |db| db.on_live_connection(|connection| (true, work(connection)))).await
    }

    async fn blocking<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Db) -> Result<T> + Send + 'static,
    {
        let asked = Instant::now();
        let permit = tokio::time::timeout(patience(), self.permits.clone().acquire_owned()).await;
        // Fails where there is no request.
        let _ = LEFT.try_with(|left| left.set(left.get().saturating_sub(asked.elapsed())));
        let permit = permit
            .map_err(|_| Error::new(Code::Overloaded, "every connection to the database is busy"))?
            .map_err(Error::internal)?;
        let db = self.clone();
        let span = tracing::Span::current();
        tokio::task::spawn_blocking(move || {
            let _permit = permit;
            span.in_scope(|| work(&db))
        })
        .await
        .map_err(Error::internal)?
    }

    /// Runs a transaction until it neither met another write nor a connection that was dead before it began.
    fn transaction<T>(&self, door: Door, work: &mut impl FnMut(&mut Tx) -> Result<T>) -> Result<T> {
        let mut attempt = 1;
        // One time for all attempts: they hold one connection.
        let mut time = Time::new(self.time_limit);
        self.on_live_connection(|connection| {
            loop {
                let mut begun = false;
                time.told = self.time_limit;
                let done = self.once(connection, door, &mut begun, &mut time, work);
                match done {
                    Err(error) if error.code == Code::Conflict && attempt < ATTEMPTS => attempt += 1,
                    done => return (!begun, done),
                }
            }
        })
    }

    /// Runs a transaction; tells in `begun` whether it came to the work.
    fn once<T>(
        &self,
        connection: &mut PgConnection,
        door: Door,
        begun: &mut bool,
        time: &mut Time,
        work: &mut impl FnMut(&mut Tx) -> Result<T>,
    ) -> Result<T> {
        AnsiTransactionManager::begin_transaction_sql(connection, &door.begin(self.durable_queries))?;
        *begun = true;
        let mut tx = Tx { connection, tenant: door.tenant(), time: *time };
        let done = work(&mut tx);
        time.over = tx.time.over;
        // What came of it in the end is not committed.
        match if time.over { Err(Error::query_timeout()) } else { done } {
            Ok(done) => {
                AnsiTransactionManager::commit_transaction(connection)?;
                Ok(done)
            }
            Err(error) => {
                match AnsiTransactionManager::rollback_transaction(connection) {
                    // The connection is no more: what the work met says why.
                    Ok(()) | Err(diesel::result::Error::BrokenTransactionManager) => Err(error),
                    Err(rollback) => Err(rollback.into()),
                }
            }
        }
    }

    /// Runs `work` on a connection, and again on another while it says that it may and the connection was dead: after a
    /// restart of the database, every pooled one is.
    fn on_live_connection<T>(
        &self,
        mut work: impl FnMut(&mut PgConnection) -> (bool, Result<T>),
    ) -> Result<T> {
        let mut others = self.pool.max_size();
        loop {
            #[expect(clippy::disallowed_methods, reason = "the door itself")]
            let checked_out = self.pool.get();
            let mut connection = checked_out.map_err(|error| Error {
                source: Some(error.into()),
                ..Error::new(Code::Unavailable, "the database cannot be reached")
            })?;
            match work(&mut connection) {
                (true, Err(error)) if error.code == Code::Unavailable && others > 0 => {
                    others -= 1;
                    // It fails, and so the pool learns that the connection is dead: a failure to prepare tells it nothing.
                    let _ = connection.batch_execute("select 1");
                }
                (_, done) => return done,
            }
        }
    }
}

/// Whose transaction it is.
#[derive(Debug, Clone, Copy)]
enum Door {
    Tenant(TenantId),
    Recording(TenantId),
    Operator,
}

impl Door {
    fn tenant(self) -> TenantId {
        match self {
            Door::Tenant(tenant) | Door::Recording(tenant) => tenant,
            Door::Operator => TenantId::OPERATOR,
        }
    }

    /// What begins the transaction and says whose it is, in one round trip. (A distributed database wants them apart.)
    fn begin(self, durable_queries: bool) -> String {
        let more = match self {
            Door::Recording(_) if !durable_queries => "set local synchronous_commit = off; ",
            Door::Tenant(_) | Door::Recording(_) => "",
            Door::Operator => "set local app.operator = 'on'; ",
        };
        format!("begin; {more}set local app.tenant_id = '{}'", self.tenant().0)
    }
}
