//! `slatebase mcp` over standard input and output.

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::support::{Cli, seeds};

/// What a client is told that says this, in order, and then nothing more.
fn talk(command: &mut Command, messages: &[Value]) -> Vec<Value> {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let out = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut lines = std::io::BufRead::lines(out);
    let mut told = Vec::new();
    for message in messages {
        writeln!(input, "{message}").unwrap();
        while message.get("id").is_some() {
            let line: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
            if line["id"] == message["id"] {
                told.push(line);
                break;
            }
        }
    }
    drop(input);
    let rest: Vec<_> = lines.map(Result::unwrap).collect();
    assert!(rest.iter().all(|line| !line.contains("\"id\"")), "{rest:?}");
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    told
}

fn greeting() -> [Value; 2] {
    let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    [
        json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
    ]
}

fn call(id: i64, name: &str, arguments: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": name, "arguments": arguments}})
}

#[test]
fn slates_are_served_to_whoever_starts_it() {
    let cli = Cli::new();
    cli.seed(&seeds("handbook"), &[]).expect(0);
    let read = call(2, "read", json!({"slate": "S", "path": "billing/invoices.md", "lines": "1"}));
    let put = call(3, "put_file", json!({"slate": "S", "path": "new.md", "content": "x"}));
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let messages: Vec<Value> = greeting().into_iter().chain([list, read, put]).collect();
    let told = talk(&mut cli.command(&["mcp", "--tenant", "acme"]), &messages);
    assert_eq!(told[0]["result"]["serverInfo"]["name"], "slatebase");
    assert_eq!(told[1]["result"]["tools"].as_array().unwrap().len(), 13);
    assert!(told[2]["result"]["structuredContent"]["provenance_id"].is_string(), "{told:?}");
    assert!(cli.paths().contains(&"new.md".to_owned()));
}

#[test]
fn what_it_cannot_serve_is_told() {
    let cli = Cli::new();
    let told = cli.run(&["mcp", "--tenant", "nobody"]).expect(1);
    assert!(told.err.contains("no such thing"), "{told:#?}");
    cli.run(&["mcp"]).expect(2);
    cli.run(&["mcp", "--server", "http://127.0.0.1:1"]).expect(2);
}
