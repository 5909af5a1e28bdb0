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
    /// Whether the connection keeps it prepared.
    pub kept: bool,
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
    // The service looks for runs to claim meanwhile, as the operator and on a connection of its own: that is no part of a
    // request. How many of those transactions have not ended, and whether the last message was of one.
    let (mut claims, mut claimed) = (0, false);
    for message in messages(log) {
        let begins = message.contains("set local app.operator");
        let ends = claims > 0 && message.ends_with("COMMIT");
        claimed = begins
            || ends
            || message.contains("update run_queue")
            || claimed && message.starts_with("DETAIL: ");
        claims += i32::from(begins) - i32::from(ends);
        if claimed {
            continue;
        }
        if let Some(statement) = message.strip_prefix("LOG:  statement: ") {
            let text = statement.to_owned();
            trace.statements.push(Statement { text, parameters: Vec::new(), kept: false });
        } else if let Some((name, text)) =
            message.strip_prefix("LOG:  execute ").and_then(|rest| rest.split_once(": "))
        {
            let (text, kept) = (text.to_owned(), name != "<unnamed>");
            trace.statements.push(Statement { text, parameters: Vec::new(), kept });
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

/// The variable of a script that is not 0 in a client's first transaction.
pub const FIRST: &str = "first";

/// The statements as a script for `pgbench`, which keeps prepared what the service does. `types` tells those of a
/// statement's parameters. Whatever is inserted gets another UUID each time, as the service gives it.
pub fn script(statements: &[Statement], mut types: impl FnMut(&str) -> Vec<String>) -> String {
    let (mut prepared, mut script) = (String::new(), String::new());
    for (i, statement) in statements.iter().enumerate() {
        let types = if statement.parameters.is_empty() { Vec::new() } else { types(&statement.text) };
        let values = values(statement, &types);
        if statement.kept && types.len() == values.len() {
            let types = if types.is_empty() { String::new() } else { format!(" ({})", types.join(", ")) };
            prepared.push_str(&format!("prepare kept{i}{types} as {};\n", statement.text));
            let values = if values.is_empty() { String::new() } else { format!(" ({})", values.join(", ")) };
            script.push_str(&format!("execute kept{i}{values};\n"));
        } else {
            script.push_str(&filled(&statement.text, &values));
            script.push_str(";\n");
        }
    }
    if prepared.is_empty() {
        return script;
    }
    format!("\\if :{FIRST}\n{prepared}\\set {FIRST} 0\n\\endif\n{script}")
}

/// The values of a statement's parameters, with their types.
fn values(statement: &Statement, types: &[String]) -> Vec<String> {
    let inserts = statement.text.trim_start().starts_with("insert");
    let value = |(n, value): (usize, &String)| match types.get(n) {
        Some(kind) if kind == "uuid" && inserts && value != "NULL" => "gen_random_uuid()".to_owned(),
        Some(kind) => format!("{}::{kind}", hidden(value)),
        // Of an array that is unnested, nothing tells the type.
        None if value.starts_with("'{") => {
            let numbers = value.bytes().all(|b| b"'{},".contains(&b) || b.is_ascii_digit());
            format!("{}::{}", hidden(value), if numbers { "bigint[]" } else { "text[]" })
        }
        None => hidden(value),
    };
    statement.parameters.iter().enumerate().map(value).collect()
}

/// A literal without colons, since `pgbench` takes what follows one for a variable, within quotes too.
fn hidden(literal: &str) -> String {
    match literal.contains(':') {
        true => format!("E{}", literal.replace('\\', "\\\\").replace(':', "\\x3a")),
        false => literal.to_owned(),
    }
}

/// A statement with values in place of its parameters.
fn filled(text: &str, values: &[String]) -> String {
    let mut pieces = text.split('$');
    let mut filled = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let end = piece.find(|c: char| !c.is_ascii_digit()).unwrap_or(piece.len());
        match piece[..end].parse::<usize>().ok().and_then(|n| values.get(n.checked_sub(1)?)) {
            Some(value) => filled.push_str(value),
            None => filled.push_str(&format!("${}", &piece[..end])),
        }
        filled.push_str(&piece[end..]);
    }
    filled
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
        2026-01-01 00:00:00.000 UTC [7] DETAIL:  parameters: $1 = '6f', $2 = '$3:a\\'\n\
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
            "\\if :first\nprepare kept2 (uuid, text) as insert into t values ($1, $2);\n\\set first 0\n\\endif\n\
             BEGIN;\nselect a\n  from search_files where b = 'it''s, so' and c = NULL;\n\
             execute kept2 (gen_random_uuid(), E'$3\\x3aa\\\\'::text);\n"
        );
        let unnested = Statement {
            text: "select $1, $2".into(),
            parameters: vec!["'{1,2}'".into(), "'{a}'".into()],
            kept: true,
        };
        assert_eq!(script(&[unnested], |_| Vec::new()), "select '{1,2}'::bigint[], '{a}'::text[];\n");
    }
}
