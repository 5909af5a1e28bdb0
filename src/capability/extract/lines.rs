//! Parts of a text: lines that were asked for, and parts joined into one text.

use crate::provenance::lines::{LineIndex, LineRange};

/// Lines in a row, from 1, both ends included.
pub type Part = (u64, u64);

/// Lines that were asked for, held against a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    /// The parts, in order and apart.
    pub parts: Vec<Part>,
    /// What was assumed on the way, a sentence each.
    pub assumptions: Vec<String>,
}

/// The lines of a text of `count` lines that `asked` names. Ranges that overlap become one; one that ends past the end is
/// clipped.
///
/// # Errors
/// A sentence for a range that lies past the end as a whole.
pub fn take(asked: &[LineRange], count: u64) -> Result<Taken, String> {
    let mut assumptions = Vec::new();
    let mut parts = Vec::with_capacity(asked.len());
    for range in asked {
        if range.first > count {
            let lines = if count == 1 { "1 line".into() } else { format!("{count} lines") };
            return Err(format!("lines {range} lie past the end: there are {lines}"));
        }
        if let Some(last) = range.last.filter(|last| *last > count) {
            assumptions.push(format!("Lines {range} end at line {last}; the text ends at line {count}."));
        }
        parts.push((range.first, range.last.unwrap_or(count).min(count)));
    }
    let merged = merge(parts.clone());
    if merged != parts {
        assumptions.push("Lines are given once each, in the order of the text.".into());
    }
    Ok(Taken { parts: merged, assumptions })
}

/// Parts in order; those that share a line become one.
pub fn merge(mut parts: Vec<Part>) -> Vec<Part> {
    parts.sort_unstable();
    let mut merged: Vec<Part> = Vec::with_capacity(parts.len());
    for (first, last) in parts {
        match merged.last_mut() {
            Some(before) if first <= before.1 => before.1 = before.1.max(last),
            _ => merged.push((first, last)),
        }
    }
    merged
}

/// The part of each of `parts` that lies within one of `within`, both in order.
pub fn intersect(parts: &[Part], within: &[Part]) -> Vec<Part> {
    let pairs = parts.iter().flat_map(|part| within.iter().map(move |range| (part, range)));
    let common = pairs.map(|(part, range)| (part.0.max(range.0), part.1.min(range.1)));
    common.filter(|(first, last)| first <= last).collect()
}

/// The text of the parts, joined by one blank line, which ends as the lines of the text do.
pub fn join(text: &str, index: &LineIndex, parts: &[Part]) -> String {
    let mut out = String::new();
    for (first, last) in parts {
        if !out.is_empty() {
            out.push_str(if out.ends_with("\r\n") { "\r\n" } else { "\n" });
        }
        out.push_str(&text[index.bytes(*first, *last)]);
    }
    out
}

/// Parts as ranges.
pub fn ranges(parts: &[Part]) -> Vec<LineRange> {
    parts.iter().map(|(first, last)| LineRange::new(*first, *last)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(texts: &[&str]) -> Vec<LineRange> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn ranges_are_held_against_the_text() {
        for (ranges, count, parts, assumptions) in [
            (&["2-4"][..], 10, vec![(2, 4)], 0),
            (&["9-99"], 10, vec![(9, 10)], 1),
            (&["3-"], 10, vec![(3, 10)], 0),
            (&["10"], 10, vec![(10, 10)], 0),
            (&["1-3", "4-5"], 10, vec![(1, 3), (4, 5)], 0),
            (&["1-3", "3-5"], 10, vec![(1, 5)], 1),
            (&["7", "1-3"], 10, vec![(1, 3), (7, 7)], 1),
        ] {
            let taken = take(&asked(ranges), count).unwrap();
            assert_eq!((taken.parts, taken.assumptions.len()), (parts, assumptions), "{ranges:?}");
        }
        assert_eq!(
            take(&asked(&["11-20"]), 10).unwrap_err(),
            "lines 11-20 lie past the end: there are 10 lines"
        );
        assert!(take(&asked(&["1"]), 0).is_err());
    }

    #[test]
    fn parts_are_joined_by_a_blank_line() {
        for (text, parts, joined) in [
            ("a\nb\nc\n", vec![(1, 1), (3, 3)], "a\n\nc\n"),
            ("a\r\nb\r\nc", vec![(1, 1), (3, 3)], "a\r\n\r\nc"),
            ("a\nb\nc", vec![(2, 3)], "b\nc"),
        ] {
            assert_eq!(join(text, &LineIndex::of(text), &parts), joined);
        }
    }

    #[test]
    fn parts_within_parts() {
        assert_eq!(intersect(&[(1, 5), (8, 9)], &[(4, 8)]), [(4, 5), (8, 8)]);
        assert_eq!(intersect(&[(1, 2)], &[(3, 4)]), []);
    }
}
