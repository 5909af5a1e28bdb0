//! The server's log: what was executed and how, as `auto_explain` tells it.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::time::Duration;

use diesel::connection::SimpleConnection;
use diesel::pg::PgConnection;
use serde_json::Value;

use crate::support::cluster::SERVICE;

/// How many plans of one statement are read whatever they cost. Of the others, those that read more than all before.
const READ: usize = 4;

/// A statement that was executed, and how.
#[derive(Debug)]
pub struct Plan {
    /// White space is one space.
    pub text: String,
    /// The outermost node.
    pub root: Value,
}

/// What was written to the log.
#[derive(Debug, Default)]
pub struct Written {
    pub plans: Vec<Plan>,
    /// All statements, those without a plan too.
    pub statements: BTreeSet<String>,
}

/// The log, read from where the last reading ended.
pub struct Log {
    path: PathBuf,
    read: u64,
}

/// Has the server tell of every statement of the service's login, from its next connection on.
pub fn enable(superuser: &mut PgConnection) {
    let settings = [
        ("log_statement", "all"),
        ("session_preload_libraries", "auto_explain"),
        ("auto_explain.log_min_duration", "0"),
        ("auto_explain.log_analyze", "on"),
        ("auto_explain.log_buffers", "on"),
        ("auto_explain.log_timing", "off"),
        ("auto_explain.log_nested_statements", "on"),
        ("auto_explain.log_format", "json"),
    ];
    superuser.batch_execute("load 'auto_explain'").expect("this Postgres has no auto_explain");
    for (name, value) in settings {
        superuser.batch_execute(&format!("alter role {SERVICE} set {name} = '{value}'")).unwrap();
    }
}

/// Leaves out what takes less than two milliseconds, from the service's next connection on: a foreign key is checked for
/// each row of a large tenant that is erased, and what is planned well would fill a gigabyte.
pub fn only_slow(superuser: &mut PgConnection) {
    superuser
        .batch_execute(&format!("alter role {SERVICE} set auto_explain.log_min_duration = '2ms'"))
        .unwrap();
}

impl Log {
    pub fn new(path: PathBuf) -> Log {
        Log { path, read: 0 }
    }

    /// What was written since the last reading.
    pub fn read(&mut self) -> Written {
        let mut file = File::open(&self.path).unwrap();
        file.seek(SeekFrom::Start(self.read)).unwrap();
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).unwrap();
        // The server may be in the middle of a line.
        while bytes.last().is_some_and(|last| *last != b'\n') {
            std::thread::sleep(Duration::from_millis(10));
            file.read_to_end(&mut bytes).unwrap();
        }
        self.read += bytes.len() as u64;
        parse(&String::from_utf8_lossy(&bytes))
    }
}

fn parse(log: &str) -> Written {
    let mut written = Written::default();
    // Of each statement, how many plans were read and the most buffers of one.
    let mut seen: HashMap<&str, (usize, u64)> = HashMap::new();
    let mut lines = log.split('\n').peekable();
    while let Some(line) = lines.next() {
        let Some((_, message)) = line.split_once("] LOG:  ") else { continue };
        let mut more = Vec::new();
        while let Some(next) = lines.next_if(|line| line.starts_with('\t')) {
            more.push(&next[1..]);
        }
        if message.starts_with("duration: ") && message.ends_with("plan:") {
            let named = |name: &str| {
                more.iter().find_map(|line| Some(line.trim_start().strip_prefix(name)?.trim_end_matches(',')))
            };
            let text = named("\"Query Text\": ").unwrap_or_default();
            // The outermost node's stands first.
            let buffers = named("\"Shared Hit Blocks\": ").and_then(|n| n.parse().ok()).unwrap_or_default();
            let (count, most) = seen.entry(text).or_default();
            *count += 1;
            if *count > READ && buffers <= *most {
                continue;
            }
            *most = (*most).max(buffers);
            let mut explained: Value = serde_json::from_str(&more.join("\n")).unwrap();
            let text = in_one_line(explained["Query Text"].as_str().unwrap());
            written.statements.insert(text.clone());
            written.plans.push(Plan { text, root: explained["Plan"].take() });
        } else {
            let text = message.strip_prefix("statement: ").or_else(|| {
                let (_, text) = message.strip_prefix("execute ")?.split_once(": ")?;
                Some(text)
            });
            if let Some(text) = text {
                let text = [&[text], &more[..]].concat().join("\n");
                written.statements.insert(in_one_line(&text));
            }
        }
    }
    written
}

/// The text with one space wherever it has white space.
pub fn in_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn plans_and_other_statements_are_read() {
    let log = "2026-01-01 00:00:00.000 UTC [7] LOG:  statement: begin;\n\tset local a = 'b'\n\
        2026-01-01 00:00:00.000 UTC [7] LOG:  duration: 0.1 ms  plan:\n\t{\n\t  \"Query Text\": \"select a\\n  from b\",\n\
        \t  \"Plan\": {\n\t    \"Shared Hit Blocks\": 4\n\t  }\n\t}\n\
        2026-01-01 00:00:00.000 UTC [7] LOG:  execute s1: insert into t\n\t  values ($1)\n\
        2026-01-01 00:00:00.000 UTC [7] DETAIL:  parameters: $1 = '6f'\n";
    let written = parse(log);
    assert_eq!(written.plans.len(), 1);
    assert_eq!(
        (&written.plans[0].text[..], &written.plans[0].root["Shared Hit Blocks"]),
        ("select a from b", &4.into())
    );
    let all: Vec<&str> = written.statements.iter().map(String::as_str).collect();
    assert_eq!(all, ["begin; set local a = 'b'", "insert into t values ($1)", "select a from b"]);
}
