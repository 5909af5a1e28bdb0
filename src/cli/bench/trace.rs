//! The statements of a request, as the server logged them: what they read, and a `pgbench` script of the same.

use serde::Deserialize;
use serde_json::Value;

/// A statement as it was executed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    /// The text, with `$1`, `$2`, … for parameters.
    pub text: String,
    /// The parameters as literals, quotes included.
    pub parameters: Vec<String>,
}

/// What a request did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trace {
    /// Statements, in order.
    pub statements: Vec<Statement>,
    /// Buffers that the statements over the search views read.
    pub search: i64,
    /// Buffers that all statements read.
    pub all: i64,
}

#[derive(Deserialize)]
struct Explained {
    #[serde(rename = "Query Text")]
    text: String,
    #[serde(rename = "Plan")]
    plan: Value,
}

/// Reads a part of the server's log.
pub fn parse(log: &str) -> Trace {
    let mut trace = Trace::default();
    for message in messages(log) {
        if let Some(statement) = message.strip_prefix("LOG:  statement: ") {
            trace.statements.push(Statement { text: statement.to_owned(), parameters: Vec::new() });
        } else if let Some((_, text)) =
            message.strip_prefix("LOG:  execute ").and_then(|rest| rest.split_once(": "))
        {
            trace.statements.push(Statement { text: text.to_owned(), parameters: Vec::new() });
        } else if let Some(detail) = message.strip_prefix("DETAIL:  ") {
            let parameters =
                detail.split_once(": ").filter(|(kind, _)| kind.eq_ignore_ascii_case("parameters"));
            if let (Some((_, list)), Some(last)) = (parameters, trace.statements.last_mut()) {
                last.parameters = literals(list);
            }
        } else if let Some((_, plan)) =
            message.strip_prefix("LOG:  duration: ").and_then(|rest| rest.split_once("plan:"))
            && let Ok(explained) = serde_json::from_str::<Explained>(plan)
        {
            let number = |name: &str| explained.plan[name].as_i64().unwrap_or_default();
            let buffers = number("Shared Hit Blocks") + number("Shared Read Blocks");
            trace.all += buffers;
            trace.search += if explained.text.contains("search_") { buffers } else { 0 };
        }
    }
    trace
}

/// Messages with their severity; further lines of one begin with a tab.
fn messages(log: &str) -> Vec<String> {
    let mut messages: Vec<String> = Vec::new();
    for line in log.lines() {
        match (line.strip_prefix('\t'), messages.last_mut()) {
            (Some(more), Some(last)) => {
                last.push('\n');
                last.push_str(more);
            }
            _ => messages.extend(line.split_once("] ").map(|(_, message)| message.to_owned())),
        }
    }
    messages
}

/// `$1 = 'a', $2 = NULL` as literals.
fn literals(list: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = list;
    while let Some((_, after)) = rest.split_once(" = ") {
        if !after.starts_with('\'') {
            let end = after.find(", ").unwrap_or(after.len());
            found.push(after[..end].to_owned());
            rest = &after[end..];
            continue;
        }
        let bytes = after.as_bytes();
        let mut end = 1;
        while end < bytes.len() && (bytes[end] != b'\'' || bytes.get(end + 1) == Some(&b'\'')) {
            end += if bytes[end] == b'\'' { 2 } else { 1 };
        }
        let end = (end + 1).min(after.len());
        found.push(after[..end].to_owned());
        rest = &after[end..];
    }
    found
}

/// The statements as a script for `pgbench`. `types` tells those of a statement's parameters. Whatever is inserted gets
/// another UUID each time, as the service gives it.
pub fn script(statements: &[Statement], mut types: impl FnMut(&str) -> Vec<String>) -> String {
    let mut script = String::new();
    for statement in statements {
        let types = if statement.parameters.is_empty() { Vec::new() } else { types(&statement.text) };
        let inserts = statement.text.trim_start().starts_with("insert");
        let literal = |n: usize| -> Option<String> {
            let value = statement.parameters.get(n - 1)?;
            Some(match types.get(n - 1) {
                Some(kind) if kind == "uuid" && inserts && value != "NULL" => "gen_random_uuid()".to_owned(),
                Some(kind) => format!("{value}::{kind}"),
                // Of an array that is unnested, nothing tells the type.
                None if value.starts_with("'{") => {
                    let numbers = value.bytes().all(|b| b"'{},".contains(&b) || b.is_ascii_digit());
                    format!("{value}::{}", if numbers { "bigint[]" } else { "text[]" })
                }
                None => value.clone(),
            })
        };
        let mut pieces = statement.text.split('$');
        script.push_str(pieces.next().unwrap_or_default());
        for piece in pieces {
            let end = piece.find(|c: char| !c.is_ascii_digit()).unwrap_or(piece.len());
            match piece[..end].parse().ok().filter(|n| *n > 0).and_then(literal) {
                Some(value) => script.push_str(&value),
                None => script.push_str(&format!("${}", &piece[..end])),
            }
            script.push_str(&piece[end..]);
        }
        script.push_str(";\n");
    }
    script
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "2026-01-01 00:00:00.000 UTC [7] LOG:  statement: BEGIN\n\
        2026-01-01 00:00:00.000 UTC [7] LOG:  execute <unnamed>: select a\n\t  from search_files where b = $1 and c = $2\n\
        2026-01-01 00:00:00.000 UTC [7] DETAIL:  Parameters: $1 = 'it''s, so', $2 = NULL\n\
        2026-01-01 00:00:00.000 UTC [7] LOG:  duration: 0.1 ms  plan:\n\t{\n\t  \"Query Text\": \"select a\\n  from search_files\",\n\
        \t  \"Plan\": {\"Shared Hit Blocks\": 4, \"Shared Read Blocks\": 1}\n\t}\n\
        2026-01-01 00:00:00.000 UTC [7] LOG:  execute s1: insert into t values ($1, $2)\n\
        2026-01-01 00:00:00.000 UTC [7] DETAIL:  parameters: $1 = '6f', $2 = '$3'\n\
        2026-01-01 00:00:00.000 UTC [7] LOG:  duration: 0.1 ms  plan:\n\t{\"Query Text\": \"insert\", \"Plan\": {\"Shared Hit Blocks\": 2}}\n";

    #[test]
    fn a_log_tells_statements_and_buffers() {
        let trace = parse(LOG);
        assert_eq!((trace.search, trace.all, trace.statements.len()), (5, 7, 3));
        assert_eq!(trace.statements[1].text, "select a\n  from search_files where b = $1 and c = $2");
        assert_eq!(trace.statements[1].parameters, ["'it''s, so'", "NULL"]);
    }

    #[test]
    fn a_script_has_the_values_and_their_types() {
        let types = |text: &str| -> Vec<String> {
            if text.starts_with("insert") { vec!["uuid".into(), "text".into()] } else { Vec::new() }
        };
        assert_eq!(
            script(&parse(LOG).statements, types),
            "BEGIN;\nselect a\n  from search_files where b = 'it''s, so' and c = NULL;\n\
             insert into t values (gen_random_uuid(), '$3'::text);\n"
        );
        let unnested =
            Statement { text: "select $1, $2".into(), parameters: vec!["'{1,2}'".into(), "'{a}'".into()] };
        assert_eq!(script(&[unnested], |_| Vec::new()), "select '{1,2}'::bigint[], '{a}'::text[];\n");
    }
}
