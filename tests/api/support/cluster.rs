//! One Postgres for the run, without fsync; each test has a database of its own, copied from a migrated template.
//!
//! All test targets share the cluster, except one that [sets a place](PLACE) of its own first.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::sql_types::Text;
use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::{Pid, geteuid};
use sha2::{Digest, Sha256};
use slatebase::db::embedded::{self, Embedded, Options};
use slatebase::db::migrate::{self, ServiceLogin};

/// What the service logs in as: no owner of anything.
pub const SERVICE: &str = "slatebase_test_service";

/// Where the cluster is, if it is not where all test targets have theirs.
pub static PLACE: OnceLock<PathBuf> = OnceLock::new();

struct Cluster {
    postgres: Embedded,
    template: String,
}

fn cluster() -> &'static Cluster {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    CLUSTER.get_or_init(|| {
        // Root's server runs as another account, which could not enter a directory of root's home.
        let usual = || std::env::temp_dir().join(format!("slatebase-tests-{}", geteuid()));
        let directory = PLACE.get_or_init(usual);
        let mut options = Options::new(directory, env!("CARGO_BIN_EXE_slatebase"));
        options.durable = false;
        options.max_connections = 400;
        let postgres = embedded::start(&options).unwrap();
        let template = format!("slatebase_template_{}", hash_of_migrations());
        let mut admin = connect(&postgres.superuser_url("postgres"));
        // Several test binaries may start at once.
        admin.batch_execute("select pg_advisory_lock(7)").unwrap();
        drop_abandoned(&mut admin);
        if !databases(&mut admin, "datistemplate").contains(&template) {
            admin.batch_execute(&format!("drop database if exists {template} with (force)")).unwrap();
            admin.batch_execute(&format!("create database {template} template template0")).unwrap();
            let login = ServiceLogin { name: SERVICE.into(), password: None };
            migrate::run(&postgres.superuser_url(&template), Some(&login)).unwrap();
            admin.batch_execute(&format!("alter database {template} is_template true")).unwrap();
        }
        admin.batch_execute("select pg_advisory_unlock(7)").unwrap();
        Cluster { postgres, template }
    })
}

fn hash_of_migrations() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations");
    let entries = fs::read_dir(root).unwrap();
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path().join("up.sql")).collect();
    files.sort();
    let mut hash = Sha256::new();
    files.iter().for_each(|file| hash.update(fs::read(file).unwrap()));
    hash.finalize().iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

fn databases(admin: &mut PgConnection, condition: &str) -> Vec<String> {
    #[derive(QueryableByName)]
    struct Row {
        #[diesel(sql_type = Text)]
        name: String,
    }
    let query = format!("select datname::text as name from pg_database where {condition}");
    let rows: Vec<Row> = diesel::sql_query(query).load(admin).unwrap();
    rows.into_iter().map(|row| row.name).collect()
}

/// Databases of test runs that were killed. Their names carry the process.
fn drop_abandoned(admin: &mut PgConnection) {
    for name in databases(admin, "datname like 'test\\_%'") {
        let process = name.split('_').nth(1).and_then(|id| id.parse().ok()).map(Pid::from_raw);
        if process.is_some_and(|process| kill(process, None) == Err(Errno::ESRCH)) {
            admin.batch_execute(&format!("drop database if exists {name} with (force)")).unwrap();
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "as the superuser, to make and to look")]
fn connect(url: &str) -> PgConnection {
    PgConnection::establish(url).unwrap()
}

/// A migrated database, dropped with this.
pub struct Database {
    name: String,
}

impl Database {
    pub fn create() -> Database {
        Database::like(&cluster().template)
    }

    /// What this database holds now, in another one. Nobody may connect to this one any more.
    #[allow(dead_code, reason = "not every suite that has this needs one twice")]
    pub fn copy(&self) -> Database {
        let closed = format!(
            "alter database {0} allow_connections false; \
             select pg_terminate_backend(pid) from pg_stat_activity where datname = '{0}'",
            self.name
        );
        connect(&cluster().postgres.superuser_url("postgres")).batch_execute(&closed).unwrap();
        Database::like(&self.name)
    }

    fn like(template: &str) -> Database {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("test_{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let mut admin = connect(&cluster().postgres.superuser_url("postgres"));
        admin.batch_execute(&format!("create database {name} template {template}")).unwrap();
        // What is granted on a template itself is not copied.
        admin.batch_execute(&format!("revoke temporary on database {name} from public")).unwrap();
        Database { name }
    }

    /// As the service's own login.
    pub fn url(&self) -> String {
        cluster().postgres.url(SERVICE, &self.name)
    }

    /// A connection that sees everything.
    pub fn superuser(&self) -> PgConnection {
        connect(&self.superuser_url())
    }

    /// Makes files `c…` beside the file at `path` that are as it is, with the same contents, by SQL alone.
    #[allow(dead_code, reason = "not every suite that has this needs many files")]
    pub fn copies(&self, path: &str, count: u32) {
        let from = format!("files f, generate_series(1, {count}) i where f.path = '{path}'");
        let new = "100000 + i, f.slate_id";
        let to = "replace(f.path, f.name, '') || 'c' || lpad(i::text, 6, '0')";
        let statements = [
            format!(
                "insert into file_ids (tenant_id, id, slate_id, created_at) overriding system value \
                     select f.tenant_id, {new}, now() from {from}"
            ),
            format!(
                "insert into file_versions (tenant_id, file_id, slate_id, path, version, sha256, size, media_type, is_text, \
                                                created_at) \
                     select f.tenant_id, {new}, {to}, 1, f.sha256, f.size, f.media_type, f.is_text, now() from {from}"
            ),
            format!(
                "insert into files (tenant_id, id, slate_id, folder_id, name, path, version, sha256, size, media_type, \
                                        is_text, data, modified_at, created_at, updated_at) \
                     select f.tenant_id, {new}, f.folder_id, 'c' || lpad(i::text, 6, '0'), {to}, 1, f.sha256, f.size, \
                            f.media_type, f.is_text, f.data, now(), now(), now() from {from}"
            ),
            format!(
                "insert into file_tags (tenant_id, file_id, slate_id, folder_id, name, path, tags, term_ids) \
                     select f.tenant_id, {new}, f.folder_id, 'c' || lpad(i::text, 6, '0'), {to}, '{{}}', '{{}}' from {from}"
            ),
            "analyze files; analyze file_tags; analyze file_versions".to_owned(),
        ];
        let mut superuser = self.superuser();
        // No foreign key is looked up a row at a time, by plans for the few rows that there were before.
        superuser.batch_execute("set session_replication_role = replica").unwrap();
        statements.iter().for_each(|statement| superuser.batch_execute(statement).unwrap());
    }

    /// As the superuser.
    pub fn superuser_url(&self) -> String {
        cluster().postgres.superuser_url(&self.name)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        connect(&cluster().postgres.superuser_url("postgres"))
            .batch_execute(&format!("drop database {} with (force)", self.name))
            .unwrap();
    }
}
