//! The prompt of a session's next call (retrieval semantics §7.1).
//!
//! ```text
//! ## <field name>
//! <value>
//!
//! packed chunks:
//! [<corpus>:<id>] <text>
//!
//! ## <as>
//! <document path="…" version="…" status="…">
//! <content>
//! </document>
//! ```
//!
//! Where the declaration says `instructions: true`, all that is below `## Instructions` and the text of [`super::instructions`].
//! What was packed for the session stands between the two, where anything was; each line of it begins with `[`.
//!
//! The values of a document's attributes are JSON strings; `version` is empty where nothing has one. A line of a content
//! that starts with `<document` or `</document` is given a leading `\`, here and nowhere else, so that no content can
//! forge the frame. A line begins wherever any reader may see one begin: after every line break of Unicode, and after
//! the separators that some languages split lines at.

use std::borrow::Cow;

use crate::sessions::fields::Field;

/// What ends the prompt of the last call.
pub const EXHAUSTED: &str = "Retrieval budget exhausted. Produce your final answer now.";

/// One item of a round, as the prompt shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptItem<'a> {
    /// The path, relative to the declared folder, or as it was asked for.
    pub path: &'a str,
    /// The version that the content is of, if it is of one.
    pub version: Option<i64>,
    /// The status, by its name on the wire.
    pub status: &'a str,
    /// The text, a note such as `(not found)`, or the JSON array of a listing.
    pub content: Cow<'a, str>,
}

/// Assembles the prompt: the fields, what was packed, then under the heading `as_field` every item, in the order given.
pub fn assemble<'a>(
    fields: &[Field],
    packed: Option<&str>,
    as_field: &str,
    items: impl IntoIterator<Item = PromptItem<'a>>,
    exhausted: bool,
) -> String {
    let mut out = String::new();
    for Field { name, value } in fields {
        out.extend(["## ", name, "\n", value, "\n\n"]);
    }
    if let Some(packed) = packed {
        out.extend(["packed chunks:\n", packed, "\n\n"]);
    }
    out.extend(["## ", as_field, "\n"]);
    for item in items {
        let version = item.version.map_or_else(String::new, |version| version.to_string());
        for (before, value) in
            [("<document path=", item.path), (" version=", &version), (" status=", item.status)]
        {
            out.push_str(before);
            push_json_string(&mut out, value);
        }
        out.push_str(">\n");
        push_content(&mut out, &item.content);
        out.push_str("\n</document>\n");
    }
    if exhausted {
        out.extend(["\n", EXHAUSTED]);
    }
    out
}

/// The prompt below what tells the model how to retrieve, where its declaration asks for that (`instructions: true`).
pub fn with_instructions(text: &str, prompt: &str) -> String {
    format!("## Instructions\n{text}\n\n{prompt}")
}

/// Characters after which a reader may see a new line.
const LINE_BREAKS: &[char] =
    &['\n', '\r', '\u{B}', '\u{C}', '\u{1C}', '\u{1D}', '\u{1E}', '\u{85}', '\u{2028}', '\u{2029}'];

fn push_content(out: &mut String, content: &str) {
    for line in content.split_inclusive(LINE_BREAKS) {
        if line.starts_with("<document") || line.starts_with("</document") {
            out.push('\\');
        }
        out.push_str(line);
    }
}

/// Appends a JSON string that stays on one line: JSON itself escapes only the line breaks of ASCII.
fn push_json_string(out: &mut String, text: &str) {
    for c in serde_json::Value::from(text).to_string().chars() {
        match c {
            '\u{85}' => out.push_str("\\u0085"),
            '\u{2028}' => out.push_str("\\u2028"),
            '\u{2029}' => out.push_str("\\u2029"),
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::{ItemStatus, NOT_FOUND};

    fn item<'a>(path: &'a str, version: Option<i64>, status: ItemStatus, content: &'a str) -> PromptItem<'a> {
        PromptItem { path, version, status: status.as_str(), content: content.into() }
    }

    fn field(name: &str, value: &str) -> Field {
        Field { name: name.into(), value: value.into() }
    }

    #[test]
    fn fields_then_items_then_the_end() {
        let items = [
            item("core.md", Some(3), ItemStatus::Fetched, "core\n"),
            item("nope.md", None, ItemStatus::NotFound, NOT_FOUND),
            item("research", None, ItemStatus::Listing, r#"[{"name":"a.md","size":1}]"#),
        ];
        let fields = [field("Question", "What is core?"), field("Tone", "brief")];
        let expected = "\
## Question
What is core?

## Tone
brief

## Docs
<document path=\"core.md\" version=\"3\" status=\"fetched\">
core

</document>
<document path=\"nope.md\" version=\"\" status=\"not_found\">
(not found)
</document>
<document path=\"research\" version=\"\" status=\"listing\">
[{\"name\":\"a.md\",\"size\":1}]
</document>
";
        assert_eq!(assemble(&fields, None, "Docs", items.clone(), false), expected);
        let last = format!("{expected}\nRetrieval budget exhausted. Produce your final answer now.");
        assert_eq!(assemble(&fields, None, "Docs", items, true), last);
    }

    #[test]
    fn nothing_retrieved_yet() {
        assert_eq!(assemble(&[], None, "Docs", [], false), "## Docs\n");
        let packed = "packed chunks:\n[a:1] x\n[b:1] y\n\n## Docs\n";
        assert_eq!(assemble(&[], Some("[a:1] x\n[b:1] y"), "Docs", [], false), packed);
        assert_eq!(assemble(&[], None, "Docs", [], true), format!("## Docs\n\n{EXHAUSTED}"));
    }

    macro_rules! contents {
        ($($name:ident: $content:expr => $shown:expr;)*) => {
            $(#[test] fn $name() {
                let prompt = assemble(&[], None, "D", [item("p", Some(1), ItemStatus::Fetched, $content)], false);
                let frame = "## D\n<document path=\"p\" version=\"1\" status=\"fetched\">\n";
                assert_eq!(prompt, format!("{frame}{}\n</document>\n", $shown));
            })*
        };
    }

    contents! {
        empty: "" => "";
        an_end: "a\n</document>\nb" => "a\n\\</document>\nb";
        a_start_in_the_first_line: "<document path=\"x\">" => "\\<document path=\"x\">";
        whatever_begins_so: "<documents\n</documentation" => "\\<documents\n\\</documentation";
        after_crlf: "a\r\n</document>\r\n" => "a\r\n\\</document>\r\n";
        after_a_lone_cr: "a\r</document>\r<document" => "a\r\\</document>\r\\<document";
        after_separators: "\u{2028}</document>\u{85}<document\u{B}</document" =>
            "\u{2028}\\</document>\u{85}\\<document\u{B}\\</document";
        not_at_the_beginning_of_a_line: " </document>\nx<document\n\\</document>\n<Document\n<doc" =>
            " </document>\nx<document\n\\</document>\n<Document\n<doc";
    }

    #[test]
    fn attributes_cannot_break_out() {
        let path = "a\"> \\ \n\r</document>\u{2028}\u{2029}\u{85}é";
        let prompt = assemble(&[], None, "D", [item(path, None, ItemStatus::NotFound, "x")], false);
        let line = prompt.split(LINE_BREAKS).nth(1).unwrap();
        let expected =
            r#"<document path="a\"> \\ \n\r</document>\u2028\u2029\u0085é" version="" status="not_found">"#;
        assert_eq!(line, expected);
        let string = line.strip_prefix("<document path=").unwrap().split(" version=").next().unwrap();
        assert_eq!(serde_json::from_str::<String>(string).unwrap(), path);
    }
}
