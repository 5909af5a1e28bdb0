//! The metatags that a document carries in its own front matter (REST contract, "Running it").
//!
//! ```text
//! ---                    +++
//! category: database     category = "database"
//! ---                    +++
//! ```
//!
//! YAML stands between `---` lines and TOML between `+++` lines, at the very beginning of the file. A document that
//! begins with `---` and never closes it begins with a thematic break and has no front matter. Blanks at the end of a
//! marker line, CRLF and a byte order mark are accepted. The contents of the file are never changed by this.
//!
//! Whether a metatag's name and value keep the limits is not checked here.

use std::collections::BTreeMap;

use serde_json::{Map, Number, Value};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::yaml;

/// The most front matter that is read, in bytes: four times what all metatags of a file may hold
/// (retrieval semantics §2.5).
pub const MAX_BYTES: usize = 1 << 20;

/// The front matter of one document.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FrontMatter {
    /// The members that set a metatag: name to value, never null.
    pub metatags: Map<String, Value>,
    /// The members whose value is null, by name in byte order. They set no metatag.
    pub nulls: Vec<String>,
    lines: BTreeMap<String, u32>,
}

impl FrontMatter {
    /// The line of the file, from 1, on which a member of this name stands; line 1 if there is none.
    pub fn line_of(&self, name: &str) -> u32 {
        self.lines.get(name).copied().unwrap_or(1)
    }

    fn insert(&mut self, name: String, value: Value, line: u32) {
        self.lines.insert(name.clone(), line);
        match value {
            Value::Null => self.nulls.push(name),
            value => {
                self.metatags.insert(name, value);
            }
        }
    }
}

/// Why a document's front matter cannot be read, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {detail}")]
pub struct FrontMatterError {
    /// The line of the file, from 1.
    pub line: u32,
    /// What is wrong, for a person to read.
    pub detail: String,
}

/// Reads the front matter of a document, or finds that it has none.
///
/// # Errors
/// Front matter that is not UTF-8, not YAML or TOML, not a mapping, holds a number that is neither a 64-bit integer
/// nor a finite double, or is longer than [`MAX_BYTES`].
pub fn read(contents: &[u8]) -> Result<Option<FrontMatter>, FrontMatterError> {
    let Some((syntax, block)) = split(contents) else {
        return Ok(None);
    };
    if block.len() > MAX_BYTES {
        return Err(error(1, format!("the front matter is longer than {MAX_BYTES} bytes")));
    }
    let text = std::str::from_utf8(block)
        .map_err(|fault| error(line_at(block, fault.valid_up_to()), "the front matter is not valid UTF-8"))?;
    match syntax {
        Syntax::Yaml => from_yaml(text),
        Syntax::Toml => from_toml(text),
    }
    .map(Some)
}

#[derive(Clone, Copy)]
enum Syntax {
    Yaml,
    Toml,
}

/// The bytes between the marker lines.
fn split(contents: &[u8]) -> Option<(Syntax, &[u8])> {
    let contents = contents.strip_prefix(b"\xef\xbb\xbf").unwrap_or(contents);
    let mut lines = contents.split_inclusive(|byte| *byte == b'\n');
    let first = lines.next()?;
    let marker = first.trim_ascii_end();
    let syntax = match marker {
        b"---" => Syntax::Yaml,
        b"+++" => Syntax::Toml,
        _ => return None,
    };
    let mut end = first.len();
    for line in lines {
        if line.trim_ascii_end() == marker {
            return Some((syntax, &contents[first.len()..end]));
        }
        end += line.len();
    }
    None
}

fn error(line: u32, detail: impl Into<String>) -> FrontMatterError {
    FrontMatterError { line, detail: detail.into() }
}

/// The line of the file on which a byte of the block stands: the block begins on line 2.
fn line_at(block: &[u8], offset: usize) -> u32 {
    let before = &block[..offset.min(block.len())];
    u32::try_from(before.iter().filter(|byte| **byte == b'\n').count()).map_or(u32::MAX, |lines| lines + 2)
}

fn from_yaml(text: &str) -> Result<FrontMatter, FrontMatterError> {
    let (value, lines) =
        yaml::parse_located(text).map_err(|fault| error(fault.line.saturating_add(1), fault.detail))?;
    let mut found = FrontMatter::default();
    match value {
        Value::Null => {}
        Value::Object(members) => {
            for (name, value) in members {
                let pointer = format!("/{}", name.replace('~', "~0").replace('/', "~1"));
                found.insert(name, value, lines.near(&pointer).saturating_add(1));
            }
        }
        _ => {
            return Err(error(
                lines.near("").saturating_add(1),
                "the front matter must be a mapping of names to values",
            ));
        }
    }
    found.nulls.sort_unstable();
    Ok(found)
}

fn from_toml(text: &str) -> Result<FrontMatter, FrontMatterError> {
    let table = DeTable::parse(text).map_err(|fault| {
        let offset = fault.span().map_or(0, |span| span.start);
        error(line_at(text.as_bytes(), offset), fault.message())
    })?;
    let mut found = FrontMatter::default();
    for (name, value) in table.into_inner() {
        let line = line_at(text.as_bytes(), name.span().start);
        found.insert(name.into_inner().into_owned(), toml_value(text, &value)?, line);
    }
    Ok(found)
}

fn toml_value(text: &str, value: &Spanned<DeValue<'_>>) -> Result<Value, FrontMatterError> {
    let refuse = |detail: String| Err(error(line_at(text.as_bytes(), value.span().start), detail));
    Ok(match value.get_ref() {
        DeValue::String(value) => Value::String(value.to_string()),
        DeValue::Boolean(value) => Value::Bool(*value),
        DeValue::Integer(integer) => match i64::from_str_radix(integer.as_str(), integer.radix()) {
            Ok(value) => Value::from(value),
            Err(_) => return refuse(format!("the integer {integer} does not fit 64 bits")),
        },
        DeValue::Float(float) => match float.as_str().parse().ok().and_then(Number::from_f64) {
            Some(value) => Value::Number(value),
            None => return refuse(format!("{float} is not a finite number")),
        },
        // As written: what the library would print has its own idea of the separator.
        DeValue::Datetime(_) => Value::String(text[value.span()].to_owned()),
        DeValue::Array(items) => {
            Value::Array(items.iter().map(|item| toml_value(text, item)).collect::<Result<_, _>>()?)
        }
        DeValue::Table(members) => Value::Object(
            members
                .iter()
                .map(|(name, value)| Ok((name.get_ref().to_string(), toml_value(text, value)?)))
                .collect::<Result<_, _>>()?,
        ),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tags(contents: &str) -> Value {
        Value::Object(read(contents.as_bytes()).expect("is read").expect("is there").metatags)
    }

    fn refusal(contents: impl AsRef<[u8]>) -> (u32, String) {
        let error = read(contents.as_ref()).expect_err("is refused");
        (error.line, error.detail)
    }

    #[test]
    fn yaml_front_matter() {
        let found = tags("---\na: 1\nb: [x, y]\nc: 2024-01-02\n---\n# Title\n---\n");
        assert_eq!(found, json!({"a": 1, "b": ["x", "y"], "c": "2024-01-02"}));
    }

    #[test]
    fn toml_front_matter() {
        let found = tags(concat!(
            "+++\ns = 'x'\ni = -3\nhex = 0xff\nf = 1.0\nbig = 1_000\nb = true\nd = 1979-05-27\n",
            "t = 1979-05-27 07:32:00.50z\nclock = 07:32:00\nlist = []\n[o]\nn = [{k = 1}, {}]\n+++\nbody"
        ));
        assert_eq!(
            found,
            json!({"s": "x", "i": -3, "hex": 255, "f": 1.0, "big": 1000, "b": true, "d": "1979-05-27",
                   "t": "1979-05-27 07:32:00.50z", "clock": "07:32:00", "list": [], "o": {"n": [{"k": 1}, {}]}})
        );
    }

    #[test]
    fn documents_without_front_matter() {
        for contents in [
            "",
            "---",
            "---\n",
            "--- \nno end\n",
            "# Title\n---\na: 1\n---\n",
            "\n---\na: 1\n---\n",
            "----\na: 1\n----\n",
            " ---\na: 1\n---\n",
            "+++\na = 1\n---\n",
            "--- a: 1\n---\n",
        ] {
            assert_eq!(read(contents.as_bytes()), Ok(None), "{contents:?}");
        }
        assert_eq!(read(b"\xff\xfe---\n---\n"), Ok(None));
    }

    #[test]
    fn markers_may_end_in_blanks_crlf_or_the_file() {
        assert_eq!(tags("\u{feff}---\r\na: 1\r\n---\r\nbody"), json!({"a": 1}));
        assert_eq!(tags("+++ \t\r\na = 1\r\nb = '''\r\nx'''\r\n+++"), json!({"a": 1, "b": "x"}));
        assert_eq!(tags("---\n---\n"), json!({}));
        assert_eq!(tags("+++\n# nothing\n+++\n"), json!({}));
        assert_eq!(tags("---\n# nothing\n---"), json!({}));
    }

    #[test]
    fn a_body_need_not_be_text() {
        assert_eq!(read(b"---\na: 1\n---\n\xff\x00").expect("is read").expect("is there").metatags["a"], 1);
    }

    #[test]
    fn nulls_set_no_metatag_and_are_named() {
        let found = read(b"---\nz:\na: ~\nb: {c: null}\ne: ''\n---\n").expect("is read").expect("is there");
        assert_eq!(found.nulls, ["a", "z"]);
        assert_eq!(Value::Object(found.metatags), json!({"b": {"c": null}, "e": ""}));
    }

    #[test]
    fn lines_are_those_of_the_file() {
        let yaml = read(b"---\n# c\na: 1\n\"b/c\": 2\n---\n").expect("is read").expect("is there");
        assert_eq!((yaml.line_of("a"), yaml.line_of("b/c"), yaml.line_of("none")), (3, 4, 1));
        let toml = read(b"+++\n\na = 1\n[t]\nx = 1\n+++\n").expect("is read").expect("is there");
        assert_eq!((toml.line_of("a"), toml.line_of("t")), (3, 4));
    }

    #[test]
    fn refusals_name_the_line_of_the_file() {
        assert_eq!(refusal("---\na: 1\nb: [\n---\n").0, 3);
        assert_eq!(refusal("---\na: 1\na: 2\n---\n").0, 3);
        assert_eq!(refusal("---\r\na: 1\r\nn: 99999999999999999999\r\n---\r\n").0, 3);
        assert_eq!(refusal("+++\na = 1\nb = \n+++\n").0, 3);
        assert_eq!(refusal("+++\na = 1\na = 2\n+++\n").0, 3);
        assert_eq!(refusal("+++\na = 1\nl = [\n 1,\n nan]\n+++\n").0, 5);
        assert_eq!(refusal("+++\nx = 9223372036854775808\n+++\n").0, 2);
        assert_eq!(refusal("+++\nx = 1e400\n+++\n").0, 2);
        assert_eq!(refusal(b"---\na: 1\nb: \xff\n---\n"), (3, "the front matter is not valid UTF-8".into()));
        assert_eq!(refusal("---\n\n- a\n- b\n---\n").0, 3);
        assert!(refusal("---\njust text\n---\n").1.contains("mapping"));
        assert!(refusal(format!("---\na: {}\n---\n", "x".repeat(MAX_BYTES))).1.contains("longer"));
    }
}
