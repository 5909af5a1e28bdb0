//! Runs the binary, and looks at what it left in the database.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use chrono::Utc;
use serde_json::Value;
use slatebase::ctx::{Ctx, TenantId};
use slatebase::db::{Db, PoolOptions};
use slatebase::files;
use slatebase::files::head::Head;
use slatebase::path::FilePath;
use slatebase::slates::{self, Slate};
use slatebase::tenants;
use uuid::Uuid;

use crate::cluster::Database;

pub const SLATEBASE: &str = env!("CARGO_BIN_EXE_slatebase");

/// What a command told.
#[derive(Debug)]
pub struct Told {
    pub status: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Told {
    #[track_caller]
    pub fn expect(self, status: i32) -> Told {
        assert_eq!(self.status, Some(status), "{self:#?}");
        self
    }

    /// The problems, without their prefix.
    pub fn problems(&self) -> Vec<&str> {
        self.err.lines().filter_map(|line| line.strip_prefix("problem: ")).collect()
    }

    /// The one problem about `path`.
    #[track_caller]
    pub fn problem(&self, path: &str) -> &str {
        let found: Vec<_> = self.problems().into_iter().filter(|line| line.starts_with(path)).collect();
        assert_eq!(found.len(), 1, "{path}: {self:#?}");
        found[0]
    }
}

/// The binary without any setting of whoever runs the tests.
pub fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("SLATEBASE_") {
            command.env_remove(name);
        }
    }
    command.stdin(Stdio::null());
    command
}

pub fn run(command: &mut Command) -> Told {
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Told { status: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

/// A database, and the binary that uses it.
pub struct Cli {
    pub database: Database,
    db: Db,
}

impl Cli {
    pub fn new() -> Cli {
        let database = Database::create();
        let options = PoolOptions {
            url: database.url(),
            size: 2,
            statement_timeout: Duration::from_secs(60),
            durable_queries: true,
        };
        Cli { db: Db::connect(&options).unwrap(), database }
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = command(Path::new(SLATEBASE));
        command.args(arguments).env("SLATEBASE_DATABASE_URL", self.database.url());
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Told {
        run(&mut self.command(arguments))
    }

    /// Seeds into the slate `S` of the tenant `acme`.
    pub fn seed(&self, source: &Path, more: &[&str]) -> Told {
        let mut command = self.command(&["seed", "--tenant", "acme", "--slate", "S"]);
        run(command.arg(source).args(more))
    }

    fn acme(&self) -> (TenantId, Ctx) {
        let tenant = self.db.operator_blocking(|tx| tenants::ops::get_tenant(tx, "acme")).unwrap().id;
        (tenant, Ctx::local(tenant, Utc::now(), Uuid::now_v7()))
    }

    /// The paths of the slate `S`.
    pub fn paths(&self) -> Vec<String> {
        let (tenant, ctx) = self.acme();
        let paths =
            self.db.tenant_blocking(tenant, |tx| files::ops::paths(tx, &ctx, "S", None, 10_000)).unwrap();
        paths.into_iter().map(|path| path.as_str().to_owned()).collect()
    }

    pub fn slate(&self, name: &str) -> Slate {
        let (tenant, ctx) = self.acme();
        self.db.tenant_blocking(tenant, |tx| slates::ops::get(tx, &ctx, name)).unwrap()
    }

    /// The contents of a file of the slate `S`, and the rest.
    #[track_caller]
    pub fn file(&self, path: &str) -> (Vec<u8>, Head, Value) {
        let (tenant, ctx) = self.acme();
        let path = FilePath::parse(path).unwrap();
        let found = self.db.tenant_blocking(tenant, |tx| {
            let (head, tags) = files::tagging::get(tx, &ctx, "S", &path)?;
            let bytes = files::read::bytes(tx, head.id, head.version, None)?;
            Ok((bytes, head, Value::Object(tags.as_map().clone())))
        });
        found.unwrap_or_else(|error| panic!("{}: {error}", path.as_str()))
    }

    /// Changes metatags as a PATCH over the API does.
    pub fn patch_tags(&self, path: &str, patch: Value) {
        let (tenant, ctx) = self.acme();
        let path = FilePath::parse(path).unwrap();
        let patch = patch.as_object().unwrap();
        let patched = self.db.tenant_blocking(tenant, |tx| {
            files::tagging::set(tx, &ctx, "S", &path, |_, tags| Ok(tags.merge(patch.clone(), "").unwrap()))
        });
        patched.unwrap();
    }

    pub fn tags(&self, path: &str) -> Value {
        self.file(path).2
    }
}

/// A directory that another account can pass through, even if root makes it.
pub fn place() -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    directory
}

pub fn put(root: &Path, path: impl AsRef<Path>, contents: impl AsRef<[u8]>) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, contents).unwrap();
}

pub fn seeds(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(name)
}

/// The files below a directory, by path; those that begin with a dot are none of ours.
pub fn files_of(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = walkdir::WalkDir::new(root).into_iter().map(Result::unwrap);
    let files = entries.filter(|entry| entry.file_type().is_file());
    files
        .map(|entry| {
            let path = entry.path().strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            (path, fs::read(entry.path()).unwrap())
        })
        .collect()
}
