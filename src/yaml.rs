//! Reads YAML by the 1.2 core schema into JSON values (REST contract, "Running it").
//!
//! Used for front matter, session declarations, `slate.yaml` and seeding manifests. What a value means is decided
//! here and not by a library, because the libraries guess: they read `yes` as a boolean, `1_000` as a number, or
//! round what does not fit. The syntax is the parser crate's.
//!
//! - `true`, `false` (also `True`, `TRUE`, `False`, `FALSE`) are the only booleans; `null`, `Null`, `NULL`, `~` and
//!   nothing at all are null; dates stay text.
//! - Integers (decimal, `0o…`, `0x…`) are exact in 64 bits, other numbers are finite IEEE doubles. What fits neither
//!   is an error, never rounded in silence.
//! - Keys that are not text become the text that was written. A key twice in a mapping is an error.
//! - Aliases work, but all that they repeat is bounded by [`MAX_REPEATED`]; nesting is bounded by [`MAX_DEPTH`].
//! - Deliberately absent: several documents in one text, keys that are collections, tags outside the core schema,
//!   and the merge key `<<`, which is not of YAML 1.2. Each is an error that says so.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

use granit_parser::{Event, Parser, ScalarStyle, Span, StrInput, Tag};
use serde_json::{Map, Number, Value};

/// The deepest nesting that is read, in levels; a scalar at the top is level 1.
pub const MAX_DEPTH: usize = 100;

/// The most that anchors and aliases may repeat, in bytes of text, each value counted as 32 bytes more.
pub const MAX_REPEATED: usize = 1 << 20;

/// What one repeated value costs besides its text, in bytes.
const VALUE_COST: usize = 32;

/// Why a text is not acceptable YAML, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {detail}")]
pub struct YamlError {
    /// The line, from 1.
    pub line: u32,
    /// The column in characters, from 1.
    pub column: u32,
    /// What is wrong, for a person to read.
    pub detail: String,
    /// Whether the text is not YAML at all (malformed: 400), rather than YAML that says what is not accepted (422).
    pub malformed: bool,
}

/// Where the values of a text stand, by JSON pointer. A member of a mapping stands where its key does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lines(BTreeMap<String, u32>);

impl Lines {
    /// The line, from 1, of the value at a JSON pointer, or of the nearest value around it.
    ///
    /// A member that is missing, and a value that came out of an alias, are found by what surrounds them.
    pub fn near(&self, pointer: &str) -> u32 {
        let mut at = pointer;
        loop {
            if let Some(line) = self.0.get(at) {
                return *line;
            }
            match at.rfind('/') {
                Some(cut) => at = &at[..cut],
                None => return 1,
            }
        }
    }
}

/// Reads one YAML document; a text with none is null.
///
/// # Errors
/// The first thing that is wrong, with its line and column.
pub fn parse(text: &str) -> Result<Value, YamlError> {
    Reader::new(text, None).document()
}

/// Reads one YAML document as [`parse`] does, and tells on which line each value stands.
///
/// # Errors
/// The first thing that is wrong, with its line and column.
pub fn parse_located(text: &str) -> Result<(Value, Lines), YamlError> {
    let mut reader = Reader::new(text, Some(Lines::default()));
    let value = reader.document()?;
    Ok((value, reader.lines.unwrap_or_default()))
}

/// An anchored value and what repeating it means.
struct Anchored {
    value: Value,
    cost: usize,
    depth: usize,
}

struct Reader<'a> {
    events: Parser<'a, StrInput<'a>>,
    anchors: HashMap<usize, Anchored>,
    repeated: usize,
    pointer: String,
    lines: Option<Lines>,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str, lines: Option<Lines>) -> Self {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        Self {
            events: Parser::new_from_str(text),
            anchors: HashMap::new(),
            repeated: 0,
            pointer: String::new(),
            lines,
        }
    }

    fn document(&mut self) -> Result<Value, YamlError> {
        let mut value = None;
        loop {
            match self.next()? {
                (Event::StreamStart | Event::DocumentEnd, _) => {}
                (Event::StreamEnd, _) => return Ok(value.unwrap_or(Value::Null)),
                (Event::DocumentStart(..), span) if value.is_some() => {
                    return Err(fault(span, "a second document begins; only one is read"));
                }
                (Event::DocumentStart(..), _) => {
                    let (event, span) = self.next()?;
                    self.note(span);
                    value = Some(self.node(event, span, 1)?);
                }
                (_, span) => return Err(fault(span, "a document was expected")),
            }
        }
    }

    fn next(&mut self) -> Result<(Event<'a>, Span), YamlError> {
        match self.events.next_event() {
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => {
                let mark = error.marker();
                Err(YamlError {
                    line: count(mark.line()),
                    column: count(mark.col() + 1),
                    detail: error.info(),
                    malformed: true,
                })
            }
            // The parser ends every text with StreamEnd, where `document` stops asking.
            None => Err(YamlError {
                line: 1,
                column: 1,
                detail: "the text ends too early".into(),
                malformed: true,
            }),
        }
    }

    fn node(&mut self, event: Event<'a>, span: Span, depth: usize) -> Result<Value, YamlError> {
        if depth > MAX_DEPTH {
            return Err(fault(span, too_deep()));
        }
        let (value, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => (scalar(text, style, tag.as_deref(), span)?, anchor),
            Event::SequenceStart(_, anchor, tag) => {
                expect_tag(tag.as_deref(), "seq", span)?;
                (self.sequence(depth)?, anchor)
            }
            Event::MappingStart(_, anchor, tag) => {
                expect_tag(tag.as_deref(), "map", span)?;
                (self.mapping(depth)?, anchor)
            }
            Event::Alias(id) => return self.alias(id, span, depth),
            _ => return Err(fault(span, "a value was expected")),
        };
        self.remember(anchor, &value, span)?;
        Ok(value)
    }

    fn sequence(&mut self, depth: usize) -> Result<Value, YamlError> {
        let mut items = Vec::new();
        loop {
            let (event, span) = self.next()?;
            if matches!(event, Event::SequenceEnd) {
                return Ok(Value::Array(items));
            }
            let outer = self.enter(&items.len().to_string(), span);
            items.push(self.node(event, span, depth + 1)?);
            self.pointer.truncate(outer);
        }
    }

    fn mapping(&mut self, depth: usize) -> Result<Value, YamlError> {
        let mut members = Map::new();
        loop {
            let (event, span) = self.next()?;
            if matches!(event, Event::MappingEnd) {
                return Ok(Value::Object(members));
            }
            let key = self.key(event, span)?;
            if members.contains_key(&key) {
                return Err(fault(span, format!("the key {key:?} is already in this mapping")));
            }
            let outer = self.enter(&key, span);
            let (event, span) = self.next()?;
            let value = self.node(event, span, depth + 1)?;
            self.pointer.truncate(outer);
            members.insert(key, value);
        }
    }

    /// The text of a key. A number or boolean keeps the spelling it was written in.
    fn key(&mut self, event: Event<'a>, span: Span) -> Result<String, YamlError> {
        match event {
            Event::Scalar(text, ScalarStyle::Plain, _, None) if text == "<<" => Err(fault(
                span,
                "the merge key << is not part of YAML 1.2: write the members out, or quote it",
            )),
            Event::Scalar(text, style, anchor, tag) => {
                if anchor != 0 || tag.is_some() {
                    let value = scalar(text.clone(), style, tag.as_deref(), span)?;
                    self.remember(anchor, &value, span)?;
                }
                Ok(text.into_owned())
            }
            Event::Alias(id) => match self.alias(id, span, 1)? {
                Value::String(text) => Ok(text),
                _ => Err(fault(span, "an alias that is a key must stand for text")),
            },
            _ => Err(fault(span, "a key must be a scalar, not a collection")),
        }
    }

    fn alias(&mut self, id: usize, span: Span, depth: usize) -> Result<Value, YamlError> {
        let Some(anchored) = self.anchors.get(&id) else {
            return Err(fault(span, "an alias stands inside the value that it names"));
        };
        if depth + anchored.depth - 1 > MAX_DEPTH {
            return Err(fault(span, too_deep()));
        }
        let cost = anchored.cost;
        self.charge(cost, span)?;
        Ok(self.anchors[&id].value.clone())
    }

    /// Keeps a copy of an anchored value for its aliases. Anchors may nest, so the copy is paid for as well.
    fn remember(&mut self, anchor: usize, value: &Value, span: Span) -> Result<(), YamlError> {
        if anchor == 0 {
            return Ok(());
        }
        let (cost, depth) = measure(value);
        self.charge(cost, span)?;
        self.anchors.insert(anchor, Anchored { value: value.clone(), cost, depth });
        Ok(())
    }

    fn charge(&mut self, cost: usize, span: Span) -> Result<(), YamlError> {
        self.repeated += cost;
        if self.repeated > MAX_REPEATED {
            return Err(fault(span, format!("anchors and aliases repeat more than {MAX_REPEATED} bytes")));
        }
        Ok(())
    }

    /// Steps into a member: notes its line, and returns the length to cut the pointer back to.
    fn enter(&mut self, name: &str, span: Span) -> usize {
        let outer = self.pointer.len();
        if self.lines.is_some() {
            // Writing to a String cannot fail.
            let _ = write!(self.pointer, "/{}", name.replace('~', "~0").replace('/', "~1"));
            self.note(span);
        }
        outer
    }

    fn note(&mut self, span: Span) {
        if let Some(lines) = &mut self.lines {
            lines.0.insert(self.pointer.clone(), count(span.start.line()));
        }
    }
}

fn fault(span: Span, detail: impl Into<String>) -> YamlError {
    YamlError {
        line: count(span.start.line()),
        column: count(span.start.col() + 1),
        detail: detail.into(),
        malformed: false,
    }
}

fn too_deep() -> String {
    format!("the nesting is deeper than {MAX_DEPTH} levels")
}

fn count(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

/// What a copy of a value costs, and how many levels it has.
fn measure(value: &Value) -> (usize, usize) {
    let (inner, depth) = match value {
        Value::String(text) => (text.len(), 0),
        Value::Array(items) => total(items.iter().map(measure)),
        Value::Object(members) => total(members.iter().map(|(name, value)| {
            let (cost, depth) = measure(value);
            (name.len() + cost, depth)
        })),
        Value::Null | Value::Bool(_) | Value::Number(_) => (0, 0),
    };
    (VALUE_COST + inner, depth + 1)
}

fn total(parts: impl Iterator<Item = (usize, usize)>) -> (usize, usize) {
    parts.fold((0, 0), |(cost, depth), (more, inner)| (cost + more, depth.max(inner)))
}

fn expect_tag(tag: Option<&Tag>, wanted: &str, span: Span) -> Result<(), YamlError> {
    match tag {
        None => Ok(()),
        Some(tag) if tag.is_yaml_core_schema_tag(wanted) || tag.original() == "!" => Ok(()),
        Some(tag) => Err(fault(span, format!("the tag {} does not fit here", tag.original()))),
    }
}

fn scalar(text: Cow<'_, str>, style: ScalarStyle, tag: Option<&Tag>, span: Span) -> Result<Value, YamlError> {
    let Some(tag) = tag else {
        return match style {
            ScalarStyle::Plain => plain(text).map_err(|detail| fault(span, detail)),
            _ => Ok(Value::String(text.into_owned())),
        };
    };
    let kind = tag.core_suffix();
    if kind == Some("str") || tag.original() == "!" {
        return Ok(Value::String(text.into_owned()));
    }
    let value = plain(text).map_err(|detail| fault(span, detail))?;
    match (kind, &value) {
        (Some("null"), Value::Null) | (Some("bool"), Value::Bool(_)) => Ok(value),
        (Some("int"), Value::Number(number)) if !number.is_f64() => Ok(value),
        (Some("float"), Value::Number(number)) => Ok(Value::from(number.as_f64())),
        _ => Err(fault(span, format!("the tag {} does not fit this value", tag.original()))),
    }
}

/// Resolves a plain scalar by the core schema.
fn plain(text: Cow<'_, str>) -> Result<Value, String> {
    Ok(match text.as_ref() {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        _ => match number(&text)? {
            Some(number) => Value::Number(number),
            None => Value::String(text.into_owned()),
        },
    })
}

/// A number of the core schema, or none if the text is not one.
fn number(text: &str) -> Result<Option<Number>, String> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN") {
        return Err(format!("{text} is not a number that JSON has; quote it to keep it as text"));
    }
    if let Some(digits) = text.strip_prefix("0o").filter(|digits| digits_only(digits, 8)) {
        return integer(text, digits, 8).map(Some);
    }
    if let Some(digits) = text.strip_prefix("0x").filter(|digits| digits_only(digits, 16)) {
        return integer(text, digits, 16).map(Some);
    }
    if digits_only(unsigned, 10) {
        return integer(text, text, 10).map(Some);
    }
    if !is_float(unsigned) {
        return Ok(None);
    }
    // Every text of that form is one that Rust reads; one too large for a double reads as infinite.
    match text.parse().ok().and_then(Number::from_f64) {
        Some(number) => Ok(Some(number)),
        None => Err(format!("the number {text} does not fit a double; quote it to keep it as text")),
    }
}

fn integer(text: &str, digits: &str, radix: u32) -> Result<Number, String> {
    if let Ok(value) = i64::from_str_radix(digits, radix) {
        return Ok(Number::from(value));
    }
    match u64::from_str_radix(digits, radix) {
        Ok(value) => Ok(Number::from(value)),
        Err(_) => Err(format!("the integer {text} does not fit 64 bits; quote it to keep it as text")),
    }
}

fn digits_only(text: &str, radix: u32) -> bool {
    !text.is_empty() && text.chars().all(|digit| digit.is_digit(radix))
}

/// Whether a text without its sign is `.5`, `1.`, `1.5` or `1`, with an exponent or without.
fn is_float(text: &str) -> bool {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent.strip_prefix(['-', '+']).unwrap_or(exponent))),
        None => (text, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = |part: &str| part.is_empty() || digits_only(part, 10);
    digits(whole)
        && digits(fraction)
        && !(whole.is_empty() && fraction.is_empty())
        && exponent.is_none_or(|exponent| digits_only(exponent, 10))
}

#[cfg(test)]
mod tests;
