//! What a question asks for, and how much each of its words counts (corpora, "Our own gateway").
//!
//! Any word may match, so the words are or-ed; and in the language `simple`, which has no stop words, "the" matches nearly
//! every passage. What keeps such words from drowning the others is how many passages hold each:
//!
//! * a word counts for as much as it is rare among the passages that are searched ([`weight`]);
//! * among more than [`SMALL`] passages, a word that a quarter of them hold, or more than [`MAX_COUNTED`] of them, is left out
//!   as long as another word is rarer: it would select nearly everything and tell nothing.
//!
//! A passage's score is the sum of what its words count for, each by `ts_rank_cd` of that word alone, which saturates; times
//! the share of the question that the passage has words of. It is between 0 and 1.

use serde_json::Value;

/// The most bytes of a question's text.
pub const MAX_TEXT: usize = 64 << 10;
/// The most words that are looked at, those that come first.
pub const MAX_WORDS: usize = 256;
/// The most words that a search is made of, the rarest.
pub const MAX_TERMS: usize = 64;
/// Up to as many passages every word counts.
pub const SMALL: i64 = 1000;
/// How far the passages are counted that are searched.
pub const MAX_PASSAGES: i64 = 40_000;
/// How far the passages are counted that hold a word.
pub const MAX_COUNTED: i64 = MAX_PASSAGES / COMMON;
/// A word that this part of the passages hold is common.
const COMMON: i64 = 4;

/// All string values of a goal, at any depth, in order, with a blank between each two. U+0000 is a blank as well.
pub fn text(goal: &Value) -> String {
    let mut out = String::new();
    collect(goal, &mut out);
    out.truncate(out.floor_char_boundary(MAX_TEXT));
    out
}

// Goals come from a parser that bounds their depth.
fn collect(value: &Value, out: &mut String) {
    match value {
        Value::String(text) => {
            if !out.is_empty() {
                out.push(' ');
            }
            if out.len() < MAX_TEXT {
                out.extend(text.chars().map(|c| if c == '\0' { ' ' } else { c }));
            }
        }
        Value::Array(elements) => elements.iter().for_each(|element| collect(element, out)),
        Value::Object(members) => members.values().for_each(|member| collect(member, out)),
        _ => {}
    }
}

/// One word as a `tsquery`.
pub fn query(lexeme: &str) -> String {
    format!("'{}'", lexeme.replace('\\', "\\\\").replace('\'', "''"))
}

/// A word, and how many passages hold it, counted up to a [`ceiling`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counted {
    /// The word, as the dictionary has it.
    pub lexeme: String,
    /// How many passages hold it.
    pub passages: i64,
}

/// What is searched for.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Words, of which a passage must hold one, with the share of the question that each is.
    pub words: Vec<(String, f64)>,
    /// So many passages hold the words that only the first ones are looked at, by path and position.
    pub bounded: bool,
}

/// How many passages make a word common among `all` (counted up to [`MAX_PASSAGES`]).
pub fn ceiling(all: i64) -> i64 {
    if all > SMALL { all / COMMON } else { SMALL }
}

/// How much a word counts that `passages` of `all` hold: the logarithm of how rare it is, never nothing.
pub fn weight(passages: i64, all: i64) -> f64 {
    let (n, all) = (passages as f64, all.max(passages) as f64);
    (1.0 + (all - n + 0.5) / (n + 0.5)).ln()
}

/// What to search for among `all` passages; none where no passage holds any of the words.
pub fn plan(mut words: Vec<Counted>, all: i64) -> Option<Plan> {
    words.retain(|word| word.passages > 0);
    let common = |word: &Counted| all > SMALL && word.passages >= ceiling(all);
    let only_common = words.iter().all(common);
    words.retain(|word| only_common || !common(word));
    // The rarest, and of as rare ones the first.
    words.sort_by_key(|word| word.passages);
    words.truncate(MAX_TERMS);
    let weights: Vec<f64> = words.iter().map(|word| weight(word.passages, all)).collect();
    let whole: f64 = weights.iter().sum();
    let words: Vec<_> = words.into_iter().zip(weights).map(|(word, w)| (word.lexeme, w / whole)).collect();
    let bounded = only_common && all >= MAX_PASSAGES;
    (!words.is_empty()).then_some(Plan { words, bounded })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_text_of_a_goal() {
        assert_eq!(text(&json!({"b": "x", "a": ["y\0z", {"c": ["w"]}, 3, null, true]})), "x y z w");
        assert_eq!(text(&json!("whole")), "whole");
        assert_eq!(text(&json!({})), "");
        assert!(text(&json!(["é".repeat(MAX_TEXT), "x".repeat(10)])).len() <= MAX_TEXT);
    }

    #[test]
    fn words_are_quoted() {
        assert_eq!(query("it's"), "'it''s'");
        assert_eq!(query("a\\b"), "'a\\\\b'");
    }

    fn counted(words: &[(&str, i64)]) -> Vec<Counted> {
        words.iter().map(|(word, n)| Counted { lexeme: (*word).into(), passages: *n }).collect()
    }

    #[test]
    fn rare_words_count_for_more() {
        assert!(weight(1, 1000) > weight(10, 1000) && weight(10, 1000) > weight(999, 1000));
        assert!(weight(1000, 1000) > 0.0 && weight(5, 3) > 0.0);
    }

    fn planned(words: &[(&str, i64)], all: i64) -> Vec<String> {
        plan(counted(words), all)
            .map_or_else(Vec::new, |plan| plan.words.into_iter().map(|(word, _)| word).collect())
    }

    #[test]
    fn common_words_are_left_out_among_many_passages() {
        let words = [("the", 9000), ("tip", 3), ("none", 0), ("fee", 2499), ("to", 2500)];
        assert_eq!(planned(&words, 10_000), ["tip", "fee"]);
        assert_eq!(planned(&[("the", 900), ("tip", 3)], 1000), ["tip", "the"]);
        assert_eq!(planned(&[("the", 2500), ("to", 2500)], 10_000), ["the", "to"]);
        assert_eq!(planned(&[("none", 0)], 10_000), [""; 0]);
        assert_eq!(planned(&[], 7), [""; 0]);
    }

    #[test]
    fn shares_make_a_whole() {
        let plan = plan(counted(&[("a", 1), ("b", 5), ("c", 100)]), 100).unwrap();
        let shares: Vec<f64> = plan.words.iter().map(|(_, share)| *share).collect();
        assert!(
            (shares.iter().sum::<f64>() - 1.0).abs() < 1e-9 && shares[0] > shares[1] && shares[1] > shares[2]
        );
        assert!(!plan.bounded);
    }

    #[test]
    fn nothing_but_common_words_among_very_many_passages() {
        let common = counted(&[("the", MAX_COUNTED), ("to", MAX_COUNTED)]);
        assert!(super::plan(common, MAX_PASSAGES).unwrap().bounded);
        let other = counted(&[("the", MAX_COUNTED), ("tip", 1)]);
        assert!(!super::plan(other, MAX_PASSAGES).unwrap().bounded);
    }
}
