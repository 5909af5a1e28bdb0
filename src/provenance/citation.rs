//! Citations of files: `slate://Slate/path@version#L1-50` (provenance, "Output").
//!
//! | part | |
//! |---|---|
//! | `slate://` | as it is |
//! | slate | its name, escaped |
//! | `/path` | the names of the path from the slate's root, each escaped, a `/` before each |
//! | `@version` | decimal, from 1, no leading zeros; what has none is an [`Address`], which names a file and no bytes |
//! | `#L1-50` | the lines that are cited: ranges in order, with commas, such as `#L1-3,7`; left out, the whole file |
//!
//! Escaped as `%XX`, byte by byte of UTF-8, are: `%` `@` `#` `?` `"` `<` `>`, white space and control characters. Every
//! other character stands for itself, so that a citation reads like the path that it names; a citation holds no white
//! space and can be taken out of running text. More than that may be escaped in what is parsed. For every legal path,
//! what is parsed from a formatted citation is that citation.

use std::fmt;

use percent_encoding::percent_decode_str;

use super::lines::LineRange;
use crate::path::{FilePath, Name};

/// What a citation names: one set of bytes, for ever.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Citation {
    /// The slate's name.
    pub slate: Name,
    /// The path from the slate's root.
    pub path: FilePath,
    /// The version's number, from 1.
    pub version: i64,
    /// The lines that are cited, in order and apart; none for the whole file.
    pub lines: Vec<LineRange>,
}

/// A file by its slate and path, whatever version; with a version it is a [`Citation`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// The slate's name.
    pub slate: Name,
    /// The path from the slate's root.
    pub path: FilePath,
    /// The version's number, from 1.
    pub version: Option<i64>,
    /// As [`Citation::lines`].
    pub lines: Vec<LineRange>,
}

/// Why a text is no citation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CitationError {
    /// It does not begin with `slate://`.
    #[error("a citation begins with `slate://`")]
    Scheme,
    /// It has no `@` and version at its end.
    #[error("a citation ends with `@` and a version, a number from 1")]
    Version,
    /// It has no path after the slate's name.
    #[error("a citation names a slate and a path in it")]
    Path,
    /// What follows `#` is no ranges of lines, in order and apart.
    #[error("the fragment of a citation is `#L` and lines in order, such as `#L1-50` or `#L1-3,7`")]
    Lines,
    /// A `%` is followed by something else than two hexadecimal digits, or the bytes are not UTF-8.
    #[error("a citation is percent-encoded UTF-8")]
    Encoding,
}

impl Address {
    /// Parses `slate://Slate/path`, with or without a version and lines.
    pub fn parse(text: &str) -> Result<Address, CitationError> {
        let rest = text.strip_prefix(SCHEME).ok_or(CitationError::Scheme)?;
        let (rest, lines) = match rest.split_once('#') {
            None => (rest, Vec::new()),
            Some((rest, fragment)) => (rest, parse_lines(fragment)?),
        };
        let (rest, version) = match rest.rsplit_once('@') {
            None => (rest, None),
            Some((rest, version)) => (rest, Some(parse_version(version)?)),
        };
        let (slate, path) = rest.split_once('/').ok_or(CitationError::Path)?;
        if rest.contains(['@', '?']) {
            return Err(CitationError::Encoding);
        }
        let slate = Name::parse(&decode(slate)?).map_err(|_| CitationError::Path)?;
        // A `/` that was escaped would be another path than the one that is written.
        let names: Result<Vec<_>, _> = path.split('/').map(decode).collect();
        let names = names?;
        if names.iter().any(|name| name.contains('/')) {
            return Err(CitationError::Path);
        }
        let path = FilePath::parse(&names.join("/")).map_err(|_| CitationError::Path)?;
        Ok(Address { slate, path, version, lines })
    }
}

impl Citation {
    /// Parses a citation.
    pub fn parse(text: &str) -> Result<Citation, CitationError> {
        let Address { slate, path, version, lines } = Address::parse(text)?;
        Ok(Citation { slate, path, version: version.ok_or(CitationError::Version)?, lines })
    }
}

fn parse_version(text: &str) -> Result<i64, CitationError> {
    match text.bytes().all(|b| b.is_ascii_digit()) {
        true if !text.starts_with('0') => text.parse().map_err(|_| CitationError::Version),
        _ => Err(CitationError::Version),
    }
}

fn parse_lines(fragment: &str) -> Result<Vec<LineRange>, CitationError> {
    let ranges = fragment.strip_prefix('L').ok_or(CitationError::Lines)?.split(',');
    let ranges: Vec<LineRange> =
        ranges.map(|r| r.parse().map_err(|_| CitationError::Lines)).collect::<Result<_, _>>()?;
    let apart = ranges.windows(2).all(|pair| pair[0].last.is_some_and(|last| last < pair[1].first));
    if apart { Ok(ranges) } else { Err(CitationError::Lines) }
}

/// Lines as the fragment of a citation has them, after `#L`.
pub fn lines_text(lines: &[LineRange]) -> String {
    lines.iter().map(LineRange::to_string).collect::<Vec<_>>().join(",")
}

/// The citation of a version, given the slate's name and the version's path from the slate's root.
pub fn reference(slate: &str, path: &str, version: i64) -> String {
    let mut out = address_of(slate, path);
    out.push('@');
    out.push_str(&version.to_string());
    out
}

/// The [`Address`] of a file, given the slate's name and the file's path from the slate's root.
pub fn address_of(slate: &str, path: &str) -> String {
    let mut out = String::from(SCHEME);
    encode(&mut out, slate);
    out.push('/');
    encode(&mut out, path);
    out
}

impl fmt::Display for Citation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&reference(self.slate.as_str(), self.path.as_str(), self.version))?;
        if self.lines.is_empty() { Ok(()) } else { write!(f, "#L{}", lines_text(&self.lines)) }
    }
}

const SCHEME: &str = "slate://";

fn encode(out: &mut String, text: &str) {
    for c in text.chars() {
        let escaped =
            matches!(c, '%' | '@' | '#' | '?' | '"' | '<' | '>') || c.is_whitespace() || c.is_control();
        match escaped {
            false => out.push(c),
            true => c.encode_utf8(&mut [0; 4]).bytes().for_each(|b| out.push_str(&format!("%{b:02X}"))),
        }
    }
}

fn decode(text: &str) -> Result<String, CitationError> {
    let bytes = text.as_bytes();
    let escapes = bytes.iter().enumerate().filter(|(_, b)| **b == b'%');
    let mut hex =
        escapes.map(|(at, _)| bytes.get(at + 1..at + 3).is_some_and(|h| h.iter().all(u8::is_ascii_hexdigit)));
    if !hex.all(|whole| whole) {
        return Err(CitationError::Encoding);
    }
    Ok(percent_decode_str(text).decode_utf8().map_err(|_| CitationError::Encoding)?.into_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    macro_rules! formatted {
        ($($name:ident: $slate:expr, $path:expr, $version:expr => $text:expr;)*) => {
            $(#[test] fn $name() {
                assert_eq!(reference($slate, $path, $version), $text);
                let parsed = Citation::parse($text).unwrap();
                assert_eq!((parsed.slate.as_str(), parsed.path.as_str(), parsed.version), ($slate, $path, $version));
                assert_eq!(parsed.to_string(), $text);
            })*
        };
    }

    formatted! {
        ordinary: "Knowledge", "docs/core.md", 3 => "slate://Knowledge/docs/core.md@3";
        delimiters: "a@b", "c@2#x?/50%.md", 1 => "slate://a%40b/c%402%23x%3F/50%25.md@1";
        white_space: "My Slate", "a b\n\t.md", 12 => "slate://My%20Slate/a%20b%0A%09.md@12";
        wide_space: "K", "a\u{3000}b\u{2028}", 1 => "slate://K/a%E3%80%80b%E2%80%A8@1";
        beyond_ascii: "日本", "é/e\u{301}/𝄞.md", i64::MAX => "slate://日本/é/e\u{301}/𝄞.md@9223372036854775807";
        quotes: "K", "\"<a>'b'&c;[d]{e}|^`~", 1 => "slate://K/%22%3Ca%3E'b'&c;[d]{e}|^`~@1";
    }

    macro_rules! refused {
        ($($name:ident: $text:expr => $why:ident;)*) => {
            $(#[test] fn $name() { assert_eq!(Citation::parse($text), Err(CitationError::$why)); })*
        };
    }

    refused! {
        another_scheme: "https://a/b@1" => Scheme;
        no_version: "slate://K/a.md" => Version;
        version_zero: "slate://K/a.md@0" => Version;
        version_with_zeros: "slate://K/a.md@01" => Version;
        version_empty: "slate://K/a.md@" => Version;
        version_signed: "slate://K/a.md@+1" => Version;
        version_too_large: "slate://K/a.md@9223372036854775808" => Version;
        no_path: "slate://K@1" => Path;
        empty_path: "slate://K/@1" => Path;
        empty_slate: "slate:///a@1" => Path;
        dots: "slate://K/../a@1" => Path;
        escaped_dots: "slate://K/%2E%2E/a@1" => Path;
        escaped_slash: "slate://K/a%2Fb@1" => Path;
        a_plain_at: "slate://K/a@2@1" => Encoding;
        lines_of_nothing: "slate://K/a@1#L" => Lines;
        lines_out_of_order: "slate://K/a@1#L7,1-3" => Lines;
        lines_that_overlap: "slate://K/a@1#L1-3,3" => Lines;
        lines_after_an_open_range: "slate://K/a@1#L1-,3" => Lines;
        another_fragment: "slate://K/a@1#top" => Lines;
        half_an_escape: "slate://K/a%2@1" => Encoding;
        no_hex: "slate://K/a%zz@1" => Encoding;
        not_utf8: "slate://K/%FF@1" => Encoding;
    }

    #[test]
    fn more_may_be_escaped() {
        assert_eq!(Citation::parse("slate://%4B/%61%2emd@1").unwrap().to_string(), "slate://K/a.md@1");
    }

    proptest! {
        #[test]
        fn goes_round(slate in "[^/\\\\\0]{1,20}", path in "[^\\\\\0]{1,40}", version in 1..=i64::MAX,
                      steps in prop::collection::vec((1..9_u64, 0..9_u64), 0..4), open: bool) {
            prop_assume!(Name::parse(&slate).is_ok() && FilePath::parse(&path).is_ok());
            let mut at = 0;
            let mut lines: Vec<LineRange> = steps.into_iter().map(|(gap, length)| {
                let first = at + gap;
                at = first + length;
                LineRange::new(first, at)
            }).collect();
            if let Some(last) = lines.last_mut().filter(|_| open) {
                last.last = None;
            }
            let (slate, path) = (Name::parse(&slate).unwrap(), FilePath::parse(&path).unwrap());
            let citation = Citation { slate, path, version, lines };
            let text = citation.to_string();
            prop_assert_eq!(Citation::parse(&text).unwrap(), citation);
            prop_assert!(!text.contains(char::is_whitespace));
        }
    }
}
