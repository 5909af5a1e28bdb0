//! Lines of a text: ranges of them, as constraints and the fragments of citations write them (provenance, "Extraction").
//!
//! | written | lines |
//! |---|---|
//! | `7` | the seventh |
//! | `1-50` | the first fifty |
//! | `40-` | from the fortieth on |
//!
//! Lines are counted from 1 and end with `\n`, which is the last character of the line; a `\r` before it is an ordinary
//! character. What follows the last `\n` is a line of its own if it is not empty.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

/// Some lines in a row, from 1, both ends included; open where it has no end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LineRange {
    /// The first.
    pub first: u64,
    /// The last, not before the first; none for all that follow.
    pub last: Option<u64>,
}

impl LineRange {
    /// From `first` to `last`.
    pub fn new(first: u64, last: u64) -> LineRange {
        LineRange { first, last: Some(last) }
    }
}

/// Why a text is no range of lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be a line, `7`, or a range of lines, `1-50` or `40-`, counted from 1")]
pub struct LineRangeError;

impl FromStr for LineRange {
    type Err = LineRangeError;

    fn from_str(text: &str) -> Result<LineRange, LineRangeError> {
        let number = |text: &str| match text.bytes().all(|b| b.is_ascii_digit()) {
            true if !text.starts_with('0') => text.parse::<u64>().map_err(|_| LineRangeError),
            _ => Err(LineRangeError),
        };
        let (first, last) = match text.split_once('-') {
            None => (number(text)?, Some(number(text)?)),
            Some((first, "")) => (number(first)?, None),
            Some((first, last)) => (number(first)?, Some(number(last)?)),
        };
        if last.is_some_and(|last| last < first) {
            return Err(LineRangeError);
        }
        Ok(LineRange { first, last })
    }
}

impl fmt::Display for LineRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.last {
            None => write!(f, "{}-", self.first),
            Some(last) if last == self.first => write!(f, "{last}"),
            Some(last) => write!(f, "{}-{last}", self.first),
        }
    }
}

/// Where the lines of a text are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineIndex {
    /// The byte at which each line begins, and at last the length of the text.
    starts: Vec<usize>,
}

impl LineIndex {
    /// Looks the lines of a text up.
    pub fn of(text: &str) -> LineIndex {
        let mut starts = vec![0];
        starts.extend(text.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(at, _)| at + 1));
        if text.ends_with('\n') || text.is_empty() {
            starts.pop();
        }
        starts.push(text.len());
        LineIndex { starts }
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.starts.len() as u64 - 1
    }

    /// The bytes of these lines, their endings included. Both ends must be lines of the text.
    pub fn bytes(&self, first: u64, last: u64) -> Range<usize> {
        self.starts[first as usize - 1]..self.starts[last as usize]
    }

    /// The number of the line that this byte is in; past the end, that of the last line.
    pub fn line_of(&self, byte: usize) -> u64 {
        let lines = &self.starts[..self.starts.len() - 1];
        lines.partition_point(|start| *start <= byte).max(1) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_go_round() {
        for text in ["1", "7", "1-50", "40-", "18446744073709551615"] {
            assert_eq!(text.parse::<LineRange>().unwrap().to_string(), text);
        }
        assert_eq!("3-3".parse::<LineRange>().unwrap().to_string(), "3");
        for bad in [
            "",
            "0",
            "01",
            "-",
            "-5",
            "5-4",
            "0-3",
            "1-2-3",
            "+1",
            "1 - 2",
            "a",
            "1,2",
            "18446744073709551616",
        ] {
            assert_eq!(bad.parse::<LineRange>(), Err(LineRangeError), "{bad:?}");
        }
    }

    #[test]
    fn lines_keep_their_endings() {
        for (text, lines) in [
            ("", vec![]),
            ("a", vec!["a"]),
            ("a\n", vec!["a\n"]),
            ("\n", vec!["\n"]),
            ("a\r\n\nb", vec!["a\r\n", "\n", "b"]),
            ("é\n𝄞", vec!["é\n", "𝄞"]),
        ] {
            let index = LineIndex::of(text);
            let found: Vec<_> = (1..=index.count()).map(|n| &text[index.bytes(n, n)]).collect();
            assert_eq!(found, lines, "{text:?}");
            for (n, line) in lines.iter().enumerate() {
                let at = index.bytes(n as u64 + 1, n as u64 + 1);
                assert_eq!(
                    (index.line_of(at.start), index.line_of(at.end - 1)),
                    (n as u64 + 1, n as u64 + 1),
                    "{line:?}"
                );
            }
        }
    }
}
