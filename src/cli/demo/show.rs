//! What the demo prints, line by line.

use std::io::{self, Write};

use serde_json::Value;

/// How much of a listing fits on a line.
const WIDTH: usize = 84;

/// The question, and the session that is to answer it.
pub fn opening(out: &mut impl Write, question: &str, session: &str) -> io::Result<()> {
    writeln!(out, "question   {question}")?;
    writeln!(out, "session    {session}, over the slate handbook, at most 3 rounds of retrieval")
}

/// One call of the model: what it was prompted with, what it put out, what came back.
pub fn call(out: &mut impl Write, prompt: &Value, output: &Value, round: &Value) -> io::Result<()> {
    let words = prompt["prompt"].as_str().unwrap_or_default();
    write!(out, "\ncall {}     the model is given a prompt of {} bytes", round["round"], words.len())?;
    if prompt["final"] == true {
        write!(
            out,
            ", which ends:\n           \"{}\"",
            words.trim_end().lines().next_back().unwrap_or_default()
        )?;
    }
    writeln!(out)?;
    shown(out, output, round)
}

/// One call that the service made: what the model put out, what came back.
pub fn round(out: &mut impl Write, output: &Value, round: &Value) -> io::Result<()> {
    writeln!(out, "\ncall {}     by the service", round["round"])?;
    shown(out, output, round)
}

fn shown(out: &mut impl Write, output: &Value, round: &Value) -> io::Result<()> {
    if round["decision"] == "answer" {
        let forced = if round["forced"] == true { "forced" } else { "free" };
        let answer = output.as_str().unwrap_or_default().replace('\n', "\n           ");
        return writeln!(
            out,
            "  answer   {answer}\n           ({forced}; the session is {})",
            word(&round["status"])
        );
    }
    writeln!(out, "  asks     {output}")?;
    for item in round["items"].as_array().into_iter().flatten() {
        writeln!(out, "  gets     {}", line(item))?;
    }
    Ok(())
}

/// A question that the service is left alone with, and what was packed before its first prompt.
pub fn packed(out: &mut impl Write, question: &str, opened: &Value) -> io::Result<()> {
    writeln!(out, "\nquestion   {question}")?;
    writeln!(
        out,
        "session    {}, on the route {}, run by the service against a scripted model",
        word(&opened["session_id"]),
        word(&opened["route"]["route_id"])
    )?;
    let chunks: Vec<&Value> =
        opened["working"]["slots"]["prefetch"]["chunks"].as_array().into_iter().flatten().collect();
    writeln!(out, "packed     {} passages before the first prompt, the first of them:", chunks.len())?;
    for chunk in chunks.iter().take(3) {
        writeln!(out, "           [{}] {}", word(&chunk["corpus_id"]), word(&chunk["citation"]))?;
    }
    Ok(())
}

/// What is on record of the session: how much, and what is known of each file that it was given.
pub fn closing(out: &mut impl Write, items: &Value, verified: &Value) -> io::Result<()> {
    let items: Vec<&Value> = items["items"].as_array().into_iter().flatten().collect();
    let sealed = if verified["sealed"] == true { "sealed" } else { "open" };
    writeln!(
        out,
        "\nprovenance {} items on record, in a chain of {} records, {sealed} and verified",
        items.len(),
        verified["records"]
    )?;
    for item in items.iter().filter(|item| item["status"] == "fetched") {
        let citation = &item["citation"];
        let hash = word(&citation["hash"]);
        writeln!(
            out,
            "           {} {}… confidence {}",
            word(&citation["reference"]),
            hash.get(..19).unwrap_or(hash),
            item["confidence"]
        )?;
    }
    Ok(())
}

/// What to do now.
pub fn try_it(out: &mut impl Write, base: &str, token: &str, operator: &str) -> io::Result<()> {
    write!(
        out,
        "
key        {token}
operator   {operator}
docs       {base}/docs

Try it (Ctrl-C stops the demo, and its key with it):

  curl -s -H 'Authorization: Bearer {token}' {base}/v1/slates/handbook/folders

  curl -s -H 'Authorization: Bearer {token}' -H 'Content-Type: application/json' \\
    -d '{{\"recursive\": true, \"request\": {{\"metatag\": {{\"name\": \"topics\", \"contains\": \"auth\"}}}}}}' {base}/v1/slates/handbook/query

  curl -s -H 'Authorization: Bearer {token}' {base}/v1/slates/handbook/files/billing/refunds.md
"
    )?;
    out.flush()
}

/// One item of a result.
fn line(item: &Value) -> String {
    let path = match item["path"].as_str().unwrap_or_default() {
        "" => "(the slate's root)",
        path => path,
    };
    let status = word(&item["status"]);
    match status {
        "listing" => listing(path, &item["content"]),
        "fetched" => {
            let modes: Vec<&str> = item["matched_by"].as_array().into_iter().flatten().map(word).collect();
            format!("{} ({} bytes, by {})", word(&item["citation"]), item["size"], modes.join(" and "))
        }
        "not_found" => {
            let nearest: Vec<&str> =
                item["hint"]["nearest"].as_array().into_iter().flatten().map(word).collect();
            let hint =
                if nearest.is_empty() { String::new() } else { format!("; perhaps {}", nearest.join(", ")) };
            format!("{path} (not found){hint}")
        }
        _ => format!("{path} {}", word(&item["content"])),
    }
}

/// A folder's index, cut at the end of a line.
fn listing(path: &str, index: &Value) -> String {
    let mut text = format!("{path}: ");
    let entries: Vec<&Value> = index.as_array().into_iter().flatten().collect();
    for (shown, entry) in entries.iter().enumerate() {
        let next = format!("{} {}", word(&entry["name"]), entry["size"]);
        if text.chars().count() + next.chars().count() > WIDTH {
            return format!("{text}… {} more", entries.len() - shown);
        }
        if shown > 0 {
            text.push_str(", ");
        }
        text.push_str(&next);
    }
    text
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn items_are_one_line_each() {
        for (item, expected) in [
            (
                json!({"path": "a.md", "status": "fetched", "size": 7, "matched_by": ["files", "glob"], "citation": "slate://S/a.md@1"}),
                "slate://S/a.md@1 (7 bytes, by files and glob)",
            ),
            (
                json!({"path": "a.md", "status": "already_in_context", "content": "(already in context)"}),
                "a.md (already in context)",
            ),
            (
                json!({"path": "b", "status": "not_found", "hint": {"reason": "no_such_file", "nearest": ["a"]}}),
                "b (not found); perhaps a",
            ),
            (json!({"path": "b", "status": "not_found"}), "b (not found)"),
            (
                json!({"path": "", "status": "listing", "content": [{"name": "a", "size": 1}, {"name": "b/", "size": 2}]}),
                "(the slate's root): a 1, b/ 2",
            ),
        ] {
            assert_eq!(line(&item), expected);
        }
    }

    #[test]
    fn a_long_listing_is_cut() {
        let entries: Vec<Value> = (0..50).map(|n| json!({"name": format!("file {n}"), "size": n})).collect();
        let text = listing("x", &json!(entries));
        assert!(text.ends_with(" more") && text.chars().count() < WIDTH + 12, "{text}");
    }
}
