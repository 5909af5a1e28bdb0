//! What bytes are: text in some encoding or not, and in which format (provenance, "Input").
//!
//! The format follows from the media type, then from the name's extension, then from the contents. `text/plain`,
//! `application/octet-stream` and types that tell nothing about text leave it to the next. What is said to be JSON, YAML
//! or CSV must be so.

use std::collections::HashSet;

use encoding_rs::{Encoding, UTF_8};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::json;

/// The largest JSON, YAML or CSV that is made data of, in bytes.
pub const MAX_DATA: usize = 16 << 20;
/// The largest YAML, which takes longer to read, in bytes.
const MAX_YAML: usize = 4 << 20;
/// The most that the names of the columns of CSV may come to, those of each row counted, in bytes.
const MAX_NAMES: usize = 64 << 20;

/// A format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// JSON (RFC 8259).
    Json,
    /// YAML 1.2, the core schema.
    Yaml,
    /// Comma-separated values (RFC 4180) below a line of names: an array of objects whose members are texts.
    Csv,
    /// Text, Markdown and code among it.
    Text,
    /// Anything else, given as base64.
    Binary,
}

impl Format {
    /// The word in the contract.
    pub fn as_str(self) -> &'static str {
        match self {
            Format::Json => "json",
            Format::Yaml => "yaml",
            Format::Csv => "csv",
            Format::Text => "text",
            Format::Binary => "binary",
        }
    }

    /// Whether it is an object or an array rather than a text.
    pub fn is_data(self) -> bool {
        matches!(self, Format::Json | Format::Yaml | Format::Csv)
    }
}

/// Bytes as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decoded {
    /// The text.
    pub text: String,
    /// Whether nothing told the encoding, and UTF-8 was assumed.
    pub assumed: bool,
    /// The encoding, where it is not UTF-8.
    pub other: Option<&'static str>,
}

/// The text that bytes are: in the encoding of a byte order mark, else in the `charset` that was told, else in UTF-8. (A
/// mark goes before what is told, as browsers have it: text in another encoding does not begin so.) `None` for what is no
/// text in it, and for text that holds U+0000, which no text does. Where the bytes are not the `whole`, half a character
/// at their end is left out.
pub fn decode(bytes: &[u8], charset: Option<&str>, whole: bool) -> Option<Decoded> {
    let told = charset.and_then(|label| Encoding::for_label(label.as_bytes()));
    let marked = Encoding::for_bom(bytes).map(|(encoding, _)| encoding);
    let encoding = marked.or(told).unwrap_or(UTF_8);
    let text = match encoding == UTF_8 {
        // A mark is a character of the text like any other: what is given is what was there.
        true => match str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(half) if !whole && half.error_len().is_none() => {
                str::from_utf8(&bytes[..half.valid_up_to()]).ok()?.to_owned()
            }
            Err(_) => return None,
        },
        false => {
            let mut decoder = encoding.new_decoder_with_bom_removal();
            let mut text = String::with_capacity(decoder.max_utf8_buffer_length(bytes.len())?);
            let (_, _, had_errors) = decoder.decode_to_string(bytes, &mut text, whole);
            if had_errors {
                return None;
            }
            text
        }
    };
    if text.contains('\0') {
        return None;
    }
    Some(Decoded {
        text,
        assumed: told.is_none() && marked.is_none(),
        other: (encoding != UTF_8).then(|| encoding.name()),
    })
}

/// The charset that a media type names.
pub fn charset(media_type: &str) -> Option<&str> {
    media_type.split(';').skip(1).find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("charset").then(|| value.trim().trim_matches('"'))
    })
}

/// What is known before the contents are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Detected {
    /// The format.
    pub format: Format,
    /// Whether media type or extension say so; otherwise it is what the contents look like.
    pub told: bool,
}

/// The format of something by its media type, its name, and whether it is text.
pub fn detect(media_type: Option<&str>, name: &str, text: Option<&str>) -> Detected {
    let media_type =
        media_type.and_then(|kind| kind.split(';').next()).map(|kind| kind.trim().to_ascii_lowercase());
    let told = media_type.as_deref().and_then(of_media_type).or_else(|| of_name(name));
    match (told, text) {
        (Some(format), Some(_)) => Detected { format, told: true },
        // Whatever it is said to be.
        (_, None) => Detected { format: Format::Binary, told: told == Some(Format::Binary) },
        (None, Some(text)) => {
            let format = if looks_like_json(text) { Format::Json } else { Format::Text };
            let plain = media_type.as_deref() == Some("text/plain");
            Detected { format: if plain { Format::Text } else { format }, told: false }
        }
    }
}

fn of_media_type(kind: &str) -> Option<Format> {
    match kind {
        "application/json" | "text/json" => Some(Format::Json),
        "application/yaml" | "application/x-yaml" | "text/yaml" | "text/x-yaml" => Some(Format::Yaml),
        "text/csv" => Some(Format::Csv),
        "text/plain" => None,
        "application/javascript"
        | "application/ecmascript"
        | "application/xml"
        | "application/toml"
        | "application/sql"
        | "application/x-sh"
        | "application/x-ndjson" => Some(Format::Text),
        _ if kind.ends_with("+json") => Some(Format::Json),
        _ if kind.ends_with("+yaml") => Some(Format::Yaml),
        _ if kind.ends_with("+xml") || kind.starts_with("text/") => Some(Format::Text),
        _ => None,
    }
}

fn of_name(name: &str) -> Option<Format> {
    let name = name.rsplit('/').next().unwrap_or(name);
    let (stem, extension) = name.rsplit_once('.')?;
    if stem.is_empty() {
        return None;
    }
    match extension.to_ascii_lowercase().as_str() {
        "json" | "geojson" | "webmanifest" => Some(Format::Json),
        "yaml" | "yml" => Some(Format::Yaml),
        "csv" => Some(Format::Csv),
        // What guesses of media types take for video and the like.
        "ts" | "mts" | "cts" | "tsx" | "jsx" | "rs" | "go" | "py" | "rb" | "md" | "txt" | "log" | "toml"
        | "ini" | "sh" | "sql" | "ndjson" | "jsonl" => Some(Format::Text),
        _ => mime_guess::from_path(name).first().and_then(|kind| of_media_type(kind.essence_str())),
    }
}

fn looks_like_json(text: &str) -> bool {
    let text = text.trim_start_matches('\u{feff}').trim_ascii();
    text.starts_with(['{', '[']) && text.len() <= MAX_DATA && json::parse(text).is_ok()
}

/// The data that a text in a format of data is.
///
/// # Errors
/// A sentence that tells what is wrong, and where.
pub fn parse(format: Format, text: &str) -> Result<Value, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    match format {
        Format::Json => json::parse(text),
        Format::Yaml if text.len() > MAX_YAML => Err(format!("it has more than {MAX_YAML} bytes")),
        Format::Yaml => crate::yaml::parse(text).map_err(|error| error.to_string()),
        Format::Csv => csv(text),
        Format::Text | Format::Binary => Ok(Value::String(text.to_owned())),
    }
}

/// The data of a text that nothing but the caller says to be in this format; none where it might as well be any text.
pub fn parse_as_asked(format: Format, text: &str) -> Option<Value> {
    let value = parse(format, text).ok()?;
    let told = match &value {
        // Any text is a column.
        Value::Array(rows) if format == Format::Csv => {
            rows.first()?.as_object().is_some_and(|row| row.len() > 1)
        }
        // And most are a scalar of YAML.
        value => value.is_array() || value.is_object(),
    };
    told.then_some(value)
}

fn csv(text: &str) -> Result<Value, String> {
    let mut reader = csv::ReaderBuilder::new().flexible(false).from_reader(text.as_bytes());
    let names = reader.headers().map_err(|error| error.to_string())?.clone();
    let mut seen = HashSet::new();
    if let Some(name) = names.iter().find(|name| !seen.insert(*name)) {
        return Err(format!("two of its columns have the name {name:?}"));
    }
    // Each row has all the names again.
    let most = (json::MAX_VALUES / names.len().max(1)).min(MAX_NAMES / names.as_slice().len().max(1));
    let rows = reader.records().enumerate().map(|(n, record)| {
        let record = record.map_err(|error| error.to_string())?;
        if n == most {
            return Err(format!(
                "it has more than {most} rows, which with these columns are too many values"
            ));
        }
        let members = names.iter().zip(record.iter()).map(|(name, value)| (name.to_owned(), value.into()));
        Ok(Value::Object(members.collect::<Map<_, _>>()))
    });
    rows.collect::<Result<Vec<_>, String>>().map(Value::Array)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    macro_rules! detected {
        ($($name:ident: $kind:expr, $file:expr, $text:expr => $format:ident;)*) => {
            $(#[test] fn $name() { assert_eq!(detect($kind, $file, $text).format, Format::$format); })*
        };
    }

    detected! {
        by_media_type: Some("application/json; charset=utf-8"), "a.txt", Some("x") => Json;
        by_a_suffix: Some("application/problem+json"), "", Some("{}") => Json;
        by_the_extension: Some("application/octet-stream"), "a/b.YML", Some("a: 1") => Yaml;
        plain_text_leaves_it_to_the_extension: Some("text/plain"), "a.json", Some("{}") => Json;
        plain_text_is_not_looked_into: Some("text/plain"), "a", Some("{}") => Text;
        typescript_is_no_video: Some("video/vnd.dlna.mpeg-tts"), "src/user.ts", Some("x") => Text;
        by_contents: None, "a", Some(" {\"a\": 1}\n") => Json;
        not_by_half_a_value: None, "a", Some("{\"a\"") => Text;
        markdown: Some("text/markdown"), "a.json", Some("{}") => Text;
        no_text: Some("text/csv"), "a.csv", None => Binary;
        a_hidden_file: None, ".json", Some("x") => Text;
    }

    #[test]
    fn charsets_and_marks() {
        let utf16 = [0xff, 0xfe, b'a', 0, 0xe9, 0];
        let decoded = decode(&utf16, None, true).unwrap();
        assert_eq!((decoded.text.as_str(), decoded.assumed, decoded.other), ("aé", false, Some("UTF-16LE")));
        assert_eq!(decode(&[0xe9], Some("latin1"), true).unwrap().text, "é");
        assert!(
            decode(b"a", None, true).unwrap().assumed && !decode(b"a", Some("utf-8"), true).unwrap().assumed
        );
        assert_eq!(decode("\u{feff}a".as_bytes(), None, true).unwrap().text, "\u{feff}a");
        assert_eq!((decode(&[0xe9], None, true), decode(b"a\0", None, true)), (None, None));
        // U+FFFD that is there stands for itself.
        let written = [0xfe, 0xff, 0xff, 0xfd];
        assert_eq!(decode(&written, None, true).unwrap().text, "\u{fffd}");
        for (bytes, charset) in
            [("aé".as_bytes(), None), (&utf16[..], None), (&[b'a', 0x82, 0xa0], Some("shift_jis"))]
        {
            let half = &bytes[..bytes.len() - 1];
            assert_eq!(decode(half, charset, true), None, "{charset:?}");
            assert_eq!(decode(half, charset, false).unwrap().text, "a", "{charset:?}");
        }
        assert_eq!(charset("text/html; a=b; Charset=\"UTF-16\""), Some("UTF-16"));
        assert_eq!(charset("text/html"), None);
    }

    #[test]
    fn data() {
        assert_eq!(parse(Format::Csv, "a,b\n1,\"x,y\"\n").unwrap(), json!([{"a": "1", "b": "x,y"}]));
        assert!(parse(Format::Csv, "a,b\n1\n").unwrap_err().contains("line"));
        assert!(parse(Format::Csv, "a,a\n1,2\n").is_err());
        assert_eq!(parse(Format::Csv, "a,b\n").unwrap(), json!([]));
        assert_eq!(parse(Format::Json, "\u{feff}[1]").unwrap(), json!([1]));
        assert!(parse(Format::Json, "{").is_err());
        assert_eq!(parse(Format::Yaml, "a: 1\n").unwrap(), json!({"a": 1}));
    }

    #[test]
    fn rows_repeat_the_names_only_so_often() {
        let long = format!("{}\n{}", "n".repeat(1 << 20), "x\n".repeat(100));
        assert!(parse(Format::Csv, &long).unwrap_err().contains("64 rows"));
        let wide = format!("{}\n", ",".repeat(999)).repeat(2000);
        let names = (0..1000).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
        assert!(parse(Format::Csv, &format!("{names}\n{wide}")).unwrap_err().contains("1000 rows"));
    }

    #[test]
    fn what_might_be_any_text_is_not_data_because_it_is_asked() {
        for (format, text, is) in [
            (Format::Yaml, "just a sentence", false),
            (Format::Yaml, "a: 1", true),
            (Format::Csv, "just\nlines\n", false),
            (Format::Csv, "a,b\n1,2\n", true),
            (Format::Json, "42", false),
            (Format::Json, "[42]", true),
        ] {
            assert_eq!(parse_as_asked(format, text).is_some(), is, "{text}");
        }
    }
}
