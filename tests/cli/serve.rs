//! The service as a process: its start, its end, and what others do meanwhile.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use diesel::RunQueryDsl;
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::served::Served;
use crate::support::{Cli, SLATEBASE, command, place, run, seeds};

/// What Postgres writes of itself when it starts, and takes away as the last thing that it does.
fn postgres(data_dir: &Path) -> Option<String> {
    let text = fs::read_to_string(data_dir.join("data/postmaster.pid")).ok()?;
    text.lines().next().map(str::to_owned)
}

#[test]
fn a_signal_ends_it_and_its_postgres_and_others_work_beside_it() {
    let dir = place();
    let data = dir.path().join("data");
    let slatebase = |arguments: &[&str]| {
        let mut command = command(SLATEBASE.as_ref());
        command.args(arguments).env("SLATEBASE_DATA_DIR", &data);
        command
    };
    let fresh = run(&mut slatebase(&["serve", "--no-migrate", "--listen", "127.0.0.1:0"])).expect(1);
    assert!(fresh.err.contains("slatebase migrate"), "{fresh:#?}");
    assert!(run(&mut slatebase(&["migrate"])).expect(0).out.contains("migrations: embedded Postgres in "));
    assert!(run(&mut slatebase(&["migrate"])).expect(0).out.starts_with("the schema is current: "));

    let ready = |line: &str| line.starts_with("serving ");
    let mut serve = slatebase(&["serve", "--listen", "127.0.0.1:0", "--log-format", "json"]);
    let (served, _) = Served::start(serve.env("SLATEBASE_LOG", "info"), ready);
    let server = postgres(&data);
    assert!(server.is_some());
    let source = seeds("handbook");
    let seed = ["seed", source.to_str().unwrap(), "--tenant", "acme", "--slate", "S"];
    run(&mut slatebase(&seed)).expect(0);
    let token = run(&mut slatebase(&["key", "create", "acme"])).expect(0).out;
    let client = served.client(&token);
    assert_eq!(client.get("/readyz"), b"ok");
    let readme = fs::read(source.join("README.md")).unwrap();
    assert_eq!(client.get("/v1/slates/S/files/README.md"), readme);
    assert_eq!(postgres(&data), server);
    // Secrets need nothing to be set up: their key is in a file that nobody else reads.
    let key = data.join("secrets.key");
    assert_eq!(fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    let key = fs::read_to_string(&key).unwrap();
    let (status, log) = served.stop(Signal::SIGTERM);
    assert_eq!(status.code(), Some(0), "{log}");
    assert_eq!(postgres(&data), None, "Postgres still runs");
    assert!(log.contains("SLATEBASE_OPERATOR_TOKEN is not set"), "{log}");
    for line in log.lines() {
        let event: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}"));
        assert!(event["level"].is_string() && event["timestamp"].is_string(), "{line}");
    }

    let mut serve = slatebase(&["serve", "--listen", "127.0.0.1:0", "--no-migrate"]);
    let (served, _) = Served::start(&mut serve, ready);
    assert_eq!(served.client(&token).get("/v1/slates/S/files/README.md"), readme);
    assert_eq!(fs::read_to_string(data.join("secrets.key")).unwrap(), key);
    assert_eq!(served.stop(Signal::SIGINT).0.code(), Some(0));
}

#[test]
fn an_address_that_cannot_be_had_is_named() {
    let cli = Cli::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let told = cli.run(&["serve", "--listen", &address]).expect(1);
    assert!(told.err.contains(&format!("cannot listen on {address}")), "{told:#?}");
    let told = cli.run(&["serve", "--listen", "127.0.0.1:0", "--log", "=not=a=filter="]).expect(1);
    assert!(told.err.contains("SLATEBASE_LOG"), "{told:#?}");
}

#[test]
fn verifying_names_the_record_that_was_altered() {
    let cli = Cli::new();
    cli.seed(&seeds("handbook"), &[]).expect(0);
    let token = cli.run(&["key", "create", "acme"]).expect(0).out;
    let (served, _) = Served::start(&mut cli.command(&["serve", "--listen", "127.0.0.1:0"]), |line| {
        line.starts_with("serving ")
    });
    let client = served.client(&token);
    let session = |request: Value| -> String {
        let declaration = json!({"to": {"slate": "S", "folder": ""}, "as": "Docs", "maxRounds": 2, "requestMatch":
            {"type": "object", "properties": {"files": {"type": "array"}, "glob": {"type": "string"}}}});
        let opened = client.post("/v1/sessions", json!({"retrieve": declaration}));
        let id = opened["session_id"].as_str().unwrap().to_owned();
        let rounds = format!("/v1/sessions/{id}/rounds");
        assert_eq!(client.post(&rounds, json!({"output": request}))["decision"], "retrieval");
        assert_eq!(client.post(&rounds, json!({"output": "done"}))["status"], "answered");
        id
    };
    let (whole, altered) = (session(json!({"files": ["README.md"]})), session(json!({"glob": "*.md"})));
    let told = cli.run(&["verify", "acme"]).expect(0);
    assert!(
        told.out.starts_with("2 sessions, ") && told.out.ends_with("all as they were written\n"),
        "{told:#?}"
    );

    let change = "update provenance set versions[1] = versions[1] + 1 where session_id = $1 and position = 1";
    diesel::sql_query(change)
        .bind::<diesel::sql_types::Uuid, _>(altered.parse::<uuid::Uuid>().unwrap())
        .execute(&mut cli.database.superuser())
        .unwrap();
    let told = cli.run(&["verify", "acme"]).expect(1);
    let found: Vec<&str> = told.out.lines().filter(|line| line.starts_with("session ")).collect();
    assert!(!found.is_empty() && found.iter().all(|line| line.contains(&altered)), "{told:#?}");
    assert!(found[0].contains(", record ") && found[0].contains("(position 1): "), "{told:#?}");
    assert!(
        told.out.contains("not as it was written") || told.out.contains("not as they were written"),
        "{told:#?}"
    );
    cli.run(&["verify", "acme", &whole]).expect(0);
    cli.run(&["verify", "acme", &altered]).expect(1);
}
