//! The demo, as a newcomer sees it.

use std::net::TcpListener;
use std::process::Command;

use nix::sys::signal::Signal;

use crate::served::Served;
use crate::support::{SLATEBASE, command, place, run};

#[test]
fn it_plays_then_serves_what_its_lines_ask_for() {
    let dir = place();
    let slatebase = |arguments: &[&str]| {
        let mut command = command(SLATEBASE.as_ref());
        command.args(arguments).env("SLATEBASE_DATA_DIR", dir.path().join("data"));
        // A database that somebody works with is none to play in.
        command.env("SLATEBASE_DATABASE_URL", "postgres://nobody@localhost:1/nothing");
        command
    };
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let busy = taken.local_addr().unwrap().to_string();
    let played = run(&mut slatebase(&["demo", "--exit", "--listen", &busy])).expect(0);
    assert!(
        played.out.contains(&format!("{busy} is busy, so this demo listens on 127.0.0.1:")),
        "{played:#?}"
    );
    for shown in [
        "question   ",
        "call 1 ",
        r#"asks     {"subfolders":["","billing"]}"#,
        "(the slate's root): README.md",
        r#""metatag":{"name":"topics","contains":"refund"}"#,
        "slate://handbook/security/incidents/2025-03-14-duplicate-invoices.md@1 (",
        "billing/refunds.md (already in context)",
        "billing/refund.md (not found); perhaps billing/refunds.md",
        "\"Retrieval budget exhausted. Produce your final answer now.\"",
        "(forced; the session is answered)",
        "in a chain of 3 records, sealed and verified",
        "on the route help-desk, run by the service against a scripted model",
        " passages before the first prompt, the first of them:",
        "           [incidents] slate://handbook/security/incidents/2025-03-14-duplicate-invoices.md@1#L",
        r#"asks     {"files":["security/incidents/2025-03-14-duplicate-invoices.md"]}"#,
        "answer   312 invoices went out twice [1].",
        "(free; the session is answered)",
    ] {
        assert!(played.out.contains(shown), "{shown}:\n{}", played.out);
    }
    assert_eq!(played.out.matches("\ncall ").count(), 6);
    assert_eq!(played.out.matches(" sealed and verified").count(), 2);
    assert!(played.out.lines().count() <= 70, "one screen:\n{}", played.out);
    let wide = played.out.lines().map(|line| line.chars().count()).max();
    assert!(wide < Some(132), "{wide:?} columns:\n{}", played.out);

    let (mut served, _) =
        Served::start(&mut slatebase(&["demo", "--listen", "127.0.0.1:0"]), |line| line.contains("http://"));
    let lines = served.lines(|line| line.contains("/files/billing/refunds.md"));
    let token = lines.iter().find_map(|line| line.strip_prefix("key        ")).unwrap();
    let client = served.client(token);
    assert_eq!(client.json("/v1/slates")["items"].as_array().unwrap().len(), 3);
    assert!(lines.iter().any(|line| *line == format!("docs       {}/docs", served.base)), "{lines:#?}");
    assert!(String::from_utf8(client.get("/docs/")).unwrap().contains("swagger"));
    // The lines to paste, each with what follows on a backslash.
    let text = lines.join("\n").replace("\\\n", "");
    let pasted: Vec<&str> = text.lines().filter(|line| line.trim_start().starts_with("curl ")).collect();
    assert_eq!(pasted.len(), 3, "{text}");
    for (line, answer) in
        pasted.into_iter().zip(["\"items\"", "\"matched_by\":[\"metatag\"]", "# Refunds and credit notes"])
    {
        // Integration has curl; whoever has not loses no more than this check.
        if Command::new("curl").arg("--version").output().is_err() {
            break;
        }
        let output = Command::new("sh").args(["-c", line]).env("no_proxy", "*").output().unwrap();
        assert!(output.status.success(), "{line}: {output:?}");
        assert!(String::from_utf8_lossy(&output.stdout).contains(answer), "{line}: {output:?}");
    }
    assert_eq!(served.stop(Signal::SIGINT).0.code(), Some(0));
    let mut keys = slatebase(&["key", "list", "demo"]);
    let keys = run(keys.env_remove("SLATEBASE_DATABASE_URL")).expect(0).out;
    assert_eq!(
        keys.lines().filter(|line| line.contains("\tdemo\t") && line.contains("\trevoked ")).count(),
        2,
        "{keys}"
    );
}
