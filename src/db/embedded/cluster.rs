//! Making a cluster, and getting its server up.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use diesel::dsl::sql;
use diesel::sql_types::Text;
use diesel::{Connection, PgConnection, RunQueryDsl};

use super::home::{self, Home};
use super::{Error, Options, SUPERUSER, process, programs, socket_url};

/// How long a server may keep saying that it is not ready, or a predecessor be in the way. Recovery after a crash is
/// not counted: `pg_ctl` waits for it.
const PATIENCE: Duration = Duration::from_secs(120);

/// Between two looks at the socket.
const PAUSE: Duration = Duration::from_millis(50);

/// A log longer than this, in bytes, is set aside at the next start.
const LONGEST_LOG: u64 = 16 << 20;

/// What the socket answers.
enum Answer {
    Up(Option<Box<PgConnection>>),
    Busy(String),
    Down,
}

/// How an attempt to start the server ended.
enum Attempt {
    Started,
    /// Something of a predecessor is still there.
    InTheWay(String),
}

/// Returns once the server answers. Call with the start lock held and passed.
pub(super) fn ensure_running(home: &Home, starting: &File, options: &Options) -> Result<(), Error> {
    let deadline = Instant::now() + PATIENCE;
    let mut bin = None;
    loop {
        let trouble = match ask(home)? {
            Answer::Up(connection) => return check_durable(connection, options),
            Answer::Busy(why) => why,
            Answer::Down => {
                let bin = match &bin {
                    Some(bin) => bin,
                    None => bin.insert(prepare(home, starting, options)?),
                };
                match launch(home, starting, options, bin)? {
                    Attempt::Started => "started, but its socket does not answer".to_owned(),
                    Attempt::InTheWay(why) => why,
                }
            }
        };
        if Instant::now() > deadline {
            return Err(Error::Server(format!("is not ready: {trouble}")));
        }
        std::thread::sleep(PAUSE);
    }
}

/// Asks the socket whether a server is behind it.
fn ask(home: &Home) -> Result<Answer, Error> {
    let socket = home.socket_dir().join(home::socket_name());
    match UnixStream::connect(&socket) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {
            return Ok(Answer::Down);
        }
        Err(source) => return Err(Error::Io { doing: "connect to", path: socket, source }),
        Ok(_) => {}
    }
    let url = socket_url(home.socket_dir(), SUPERUSER, "postgres");
    #[expect(
        clippy::disallowed_methods,
        reason = "asks whether the server is up, and reads no tenant's data"
    )]
    let found = PgConnection::establish(&format!("{url}&connect_timeout=10"));
    Ok(match found {
        Ok(connection) => Answer::Up(Some(Box::new(connection))),
        Err(error) => refusal(error.to_string()),
    })
}

/// A server that is full is up all the same.
fn refusal(message: String) -> Answer {
    if ["too many clients", "remaining connection slots"].iter().any(|text| message.contains(text)) {
        Answer::Up(None)
    } else {
        Answer::Busy(message)
    }
}

/// Refuses to share a server that was started without durability, if durability is asked for.
fn check_durable(connection: Option<Box<PgConnection>>, options: &Options) -> Result<(), Error> {
    let Some(mut connection) = connection.filter(|_| options.durable) else { return Ok(()) };
    let fsync: String = diesel::select(sql::<Text>("current_setting('fsync')"))
        .get_result(&mut *connection)
        .map_err(|error| Error::Server(format!("does not answer: {error}")))?;
    if fsync == "on" {
        Ok(())
    } else {
        Err(Error::Server(
            "already runs for somebody who wants it fast and not durable (fsync is off)".into(),
        ))
    }
}

/// Finds programs, makes the cluster if there is none; the directory of the programs.
fn prepare(home: &Home, starting: &File, options: &Options) -> Result<PathBuf, Error> {
    let version_file = home.data().join("PG_VERSION");
    let wanted = match fs::read_to_string(&version_file) {
        Ok(text) => Some(text.trim().parse().map_err(|_| {
            Error::Directory(format!(
                "{} is no cluster of ours: PG_VERSION is {:?}",
                home.data().display(),
                text.trim()
            ))
        })?),
        Err(_) if home.data().exists() => {
            return Err(Error::Directory(format!(
                "{} is no cluster of PostgreSQL's: it has no readable PG_VERSION",
                home.data().display()
            )));
        }
        Err(_) => None,
    };
    let bin = programs::find(home, starting, &options.places, wanted)?;
    if wanted.is_none() {
        init(home, starting, options, &bin)?;
    }
    Ok(bin)
}

/// Makes the cluster under another name, so that one that was interrupted is never taken for whole.
fn init(home: &Home, starting: &File, options: &Options, bin: &Path) -> Result<(), Error> {
    let data = home.init();
    let mut failure = "this system lists no locale with UTF-8".to_owned();
    for locale in utf8_locales() {
        if data.exists() {
            fs::remove_dir_all(&data).map_err(Error::io("remove", &data))?;
        }
        home.private_dir(&data)?;
        let mut initdb = home.command(bin.join("initdb"));
        initdb.args([
            "-D",
            "data.init",
            "-U",
            SUPERUSER,
            "--encoding=UTF8",
            "--auth-local=trust",
            "--auth-host=reject",
        ]);
        // Order by bytes; but what is a letter must be known beyond ASCII, or trigrams are made of ASCII alone.
        initdb.arg("--locale=C").arg(format!("--lc-ctype={locale}"));
        if !options.durable {
            initdb.arg("--no-sync");
        }
        let output = process::run_locked(&mut initdb, starting).map_err(Error::Init)?;
        if output.status.success() {
            fs::rename(&data, home.data()).map_err(Error::io("rename", &data))?;
            return File::open(home.root())
                .and_then(|root| root.sync_all())
                .map_err(Error::io("write", home.root()));
        }
        failure = process::said(&output);
        if !failure.contains("locale") {
            break;
        }
    }
    Err(Error::Init(failure))
}

/// Locales worth trying, best first.
fn utf8_locales() -> Vec<String> {
    let listed = process::command("locale").arg("-a").stdout(Stdio::piped()).output();
    let listed =
        listed.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    choose_locales(&listed, cfg!(target_os = "macos"))
}

/// Of the locales in `locale -a`'s output: `C` and US English with UTF-8 (the other way round on macOS, where C.UTF-8
/// is recent), then two others; then those first two by their usual names, for systems whose list is missing or
/// wrong.
fn choose_locales(listed: &str, macos: bool) -> Vec<String> {
    let normal = |name: &str| name.to_ascii_lowercase().replace('-', "");
    let preferred = if macos { ["en_US.UTF-8", "C.UTF-8"] } else { ["C.UTF-8", "en_US.UTF-8"] };
    let utf8: Vec<&str> =
        listed.lines().map(str::trim).filter(|name| normal(name).ends_with("utf8")).collect();
    let is_preferred = |name: &&str| preferred.iter().any(|preferred| normal(preferred) == normal(name));
    let mut chosen: Vec<&str> = preferred
        .iter()
        .filter_map(|preferred| utf8.iter().copied().find(|name| normal(name) == normal(preferred)))
        .collect();
    chosen.extend(utf8.iter().copied().filter(|name| !is_preferred(name)).take(2));
    for preferred in preferred {
        if !chosen.iter().any(|name| normal(name) == normal(preferred)) {
            chosen.push(preferred);
        }
    }
    chosen.into_iter().map(str::to_owned).collect()
}

/// Starts the server and waits until it accepts connections, or has given up.
fn launch(home: &Home, starting: &File, options: &Options, bin: &Path) -> Result<Attempt, Error> {
    clear_stale(home)?;
    let log = home.log();
    if log.metadata().is_ok_and(|metadata| metadata.len() > LONGEST_LOG) {
        fs::rename(&log, log.with_extension("log.old")).map_err(Error::io("rename", &log))?;
    }
    let mut log_file = home.file(&log)?;
    let before = log_file.metadata().map_err(Error::io("read", &log))?.len();

    let mut pg_ctl = home.command(bin.join("pg_ctl"));
    // Relative paths, since a shell reads them. The time is without limit: recovery takes as long as it takes.
    pg_ctl.args(["start", "--wait", "--silent", "--timeout=2000000", "-D", "data", "-l", "server.log", "-o"]);
    pg_ctl.arg(settings(home.socket_dir(), options, shared_buffers(machine_memory())));
    let output = process::run_locked(&mut pg_ctl, starting)
        .map_err(|reason| Error::Server(format!("did not start: {reason}")))?;
    if output.status.success() {
        return Ok(Attempt::Started);
    }
    let mut written = String::new();
    let read = log_file.seek(SeekFrom::Start(before)).and_then(|_| log_file.read_to_string(&mut written));
    read.map_err(Error::io("read", &log))?;
    let why = format!(
        "did not start: {}\n{}\n(all of it is in {})",
        process::said(&output),
        written.trim(),
        log.display()
    );
    if is_in_the_way(&written) { Ok(Attempt::InTheWay(why)) } else { Err(Error::Server(why)) }
}

/// Whether a server's complaint is about a predecessor that may soon be gone: one that is shutting down, or backends
/// of one that was killed.
fn is_in_the_way(log: &str) -> bool {
    log.contains("lock file") || log.contains("is still in use")
}

/// After a crash, the process id in the lock files may be somebody else's by now, surely so in a container, and
/// Postgres would refuse to start. We know better: nobody else starts a server here, and the socket is silent. Our
/// own id is one that Postgres ignores (it belongs to its starter), and the rest of the file lets it see whether
/// memory is still shared with orphans.
fn clear_stale(home: &Home) -> Result<(), Error> {
    let path = home::pid_file(home.root());
    if let Ok(text) = fs::read_to_string(&path) {
        match home::parse_pid(&text) {
            Some(pid) if process::is_running_postgres(pid) => return Ok(()),
            Some(_) => {
                let rest = text.split_once('\n').map(|(_, rest)| rest).unwrap_or_default();
                fs::remove_file(&path)
                    .and_then(|()| write_new(&path, &format!("{}\n{rest}", std::process::id())))
                    .map_err(Error::io("replace", &path))?;
                home.give(&path)?;
            }
            None => fs::remove_file(&path).map_err(Error::io("remove", &path))?,
        }
    }
    let socket = home.socket_dir().join(home::socket_name());
    for stale in [socket.with_extension(format!("{}.lock", home::PORT)), socket] {
        match fs::remove_file(&stale) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(Error::io("remove", &stale)(error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Writes a file that must not be there, for its owner alone.
fn write_new(path: &Path, text: &str) -> io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())
}

/// The server's settings, as `pg_ctl -o` takes them. A shell splits them: no value needs quoting, the socket's
/// directory by construction.
fn settings(socket_dir: &Path, options: &Options, shared_buffers: u64) -> String {
    let durable = if options.durable { "on" } else { "off" };
    [
        "listen_addresses=".to_owned(),
        format!("port={}", home::PORT),
        format!("unix_socket_directories={}", socket_dir.display()),
        "unix_socket_permissions=0700".to_owned(),
        format!("max_connections={}", options.max_connections),
        format!("shared_buffers={shared_buffers}MB"),
        // Even without this, what is committed outlives the server's processes; only the machine may lose it.
        format!("fsync={durable}"),
        format!("full_page_writes={durable}"),
    ]
    .map(|setting| format!("-c {setting}"))
    .join(" ")
}

/// An eighth of the memory (in bytes), between 128 MB and 2 GB; in MB.
fn shared_buffers(memory: Option<u64>) -> u64 {
    (memory.unwrap_or_default() / 8 / (1 << 20)).clamp(128, 2048)
}

/// The memory of this machine, or of this container if that is less, in bytes.
fn machine_memory() -> Option<u64> {
    if let Ok(text) = fs::read_to_string("/proc/meminfo") {
        let limit =
            fs::read_to_string("/sys/fs/cgroup/memory.max").ok().and_then(|text| text.trim().parse().ok());
        return meminfo_total(&text).map(|total| limit.map_or(total, |limit: u64| limit.min(total)));
    }
    let output =
        process::command("sysctl").args(["-n", "hw.memsize"]).stdout(Stdio::piped()).output().ok()?;
    String::from_utf8(output.stdout).ok()?.trim().parse().ok()
}

/// `MemTotal` of Linux's `/proc/meminfo`, in bytes.
fn meminfo_total(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn utf8_locales_are_tried_best_first() {
        let debian = "C\nC.utf8\nPOSIX\nde_DE.utf8\nen_US.utf8\nfr_FR.utf8\nit_IT.utf8\nja_JP.eucjp\n";
        assert_eq!(choose_locales(debian, false), ["C.utf8", "en_US.utf8", "de_DE.utf8", "fr_FR.utf8"]);
        assert_eq!(
            choose_locales("C\nPOSIX\nde_DE.UTF-8\n", false),
            ["de_DE.UTF-8", "C.UTF-8", "en_US.UTF-8"]
        );
        assert_eq!(choose_locales("en_US.UTF-8\nC\n", true), ["en_US.UTF-8", "C.UTF-8"]);
        assert_eq!(choose_locales("", false), ["C.UTF-8", "en_US.UTF-8"]);
    }

    #[test]
    fn shared_buffers_are_an_eighth_of_memory_within_bounds() {
        assert_eq!(shared_buffers(None), 128);
        assert_eq!(shared_buffers(Some(512 << 20)), 128);
        assert_eq!(shared_buffers(Some(8 << 30)), 1024);
        assert_eq!(shared_buffers(Some(64 << 30)), 2048);
        assert_eq!(meminfo_total("MemTotal:       24684560 kB\nMemFree: 1 kB\n"), Some(24_684_560 * 1024));
        assert_eq!(meminfo_total("MemFree: 1 kB\n"), None);
    }

    #[test]
    fn settings_close_the_network_and_follow_the_options() {
        let mut options = Options::new("/d", "/g");
        options.max_connections = 7;
        let text = settings(Path::new("/d/run"), &options, 128);
        assert!(text.starts_with("-c listen_addresses= -c port=5432 -c unix_socket_directories=/d/run -c unix_socket_permissions=0700 "), "{text}");
        assert!(text.contains("-c max_connections=7 ") && text.contains("-c fsync=on "), "{text}");
        options.durable = false;
        assert!(settings(Path::new("/d/run"), &options, 128).contains("-c fsync=off "));
    }

    #[test]
    fn a_full_server_is_up_and_a_starting_one_is_not() {
        assert!(matches!(refusal("FATAL:  sorry, too many clients already".into()), Answer::Up(None)));
        assert!(matches!(refusal("FATAL:  the database system is starting up".into()), Answer::Busy(_)));
    }

    #[test]
    fn predecessors_are_waited_for() {
        assert!(is_in_the_way("FATAL:  lock file \"postmaster.pid\" already exists"));
        assert!(is_in_the_way("FATAL:  pre-existing shared memory block (key 1, ID 2) is still in use"));
        assert!(!is_in_the_way("FATAL:  could not map anonymous shared memory: Cannot allocate memory"));
    }
}
