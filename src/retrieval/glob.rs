//! Patterns over names: their syntax, and their translation into SQL (retrieval semantics §3.5).
//!
//! | pattern | matches |
//! |---|---|
//! | `*` | any sequence, also none; runs of it mean the same |
//! | `?` | one character (Unicode scalar) |
//! | `[abc]`, `[a-z]` | one character of the class; a `]` that comes first is of the class |
//! | `[!abc]` | one character that is not of the class |
//! | anything else | itself, `\` and a leading dot included |
//!
//! A pattern matches the whole name. A range that runs backwards is empty: `[z-a]` matches no character, `[!z-a]`
//! every one. `[` without its `]`, `[]` and `[!]` are errors. Whether a pattern is valid is for the `glob` crate to
//! say; as it refuses `a**` and reads `**/` in its own way, runs of `*` are collapsed before it is asked.
//!
//! A [`Glob`] becomes a `LIKE` pattern, a range of names that begin alike, and, only where it has a class, a regular
//! expression: together they select exactly the names that it matches.

use std::fmt::Write as _;

use crate::retrieval::contains::push_literal;

/// The longest pattern, in bytes.
pub const MAX_GLOB: usize = 1024;

/// Why a pattern cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GlobError {
    /// It is longer than [`MAX_GLOB`].
    #[error("the pattern is longer than {MAX_GLOB} bytes")]
    TooLong,
    /// It holds U+0000.
    #[error("the pattern holds U+0000, which no name can hold")]
    Nul,
    /// Its syntax is wrong.
    #[error("the pattern is invalid: {0}")]
    Syntax(String),
}

/// A piece of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Token {
    /// This text, which is not empty; two literals never follow each other.
    Literal(String),
    /// `*`; two never follow each other.
    AnyRun,
    /// `?`.
    AnyChar,
    /// `[…]`.
    Class(Class),
}

/// A class of characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Class {
    /// Whether the characters are those that are not in the ranges.
    pub negated: bool,
    /// First and last characters, inclusive; a range that runs backwards is left out.
    pub ranges: Vec<(char, char)>,
}

/// A valid pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glob {
    tokens: Vec<Token>,
}

impl Glob {
    /// Parses a pattern.
    pub fn parse(pattern: &str) -> Result<Glob, GlobError> {
        if pattern.len() > MAX_GLOB {
            return Err(GlobError::TooLong);
        }
        if pattern.contains('\0') {
            return Err(GlobError::Nul);
        }
        let collapsed = collapse(pattern);
        ::glob::Pattern::new(&collapsed).map_err(|e| GlobError::Syntax(e.to_string()))?;
        let chars: Vec<char> = collapsed.chars().collect();
        let mut tokens = Vec::new();
        let mut at = 0;
        while let Some(&c) = chars.get(at) {
            at += 1;
            match c {
                '*' => tokens.push(Token::AnyRun),
                '?' => tokens.push(Token::AnyChar),
                '[' => {
                    let (class, end) = class(&chars, at).ok_or_else(unclosed)?;
                    tokens.push(Token::Class(class));
                    at = end;
                }
                c => match tokens.last_mut() {
                    Some(Token::Literal(text)) => text.push(c),
                    _ => tokens.push(Token::Literal(c.into())),
                },
            }
        }
        Ok(Glob { tokens })
    }

    /// Its pieces, in order.
    pub fn tokens(&self) -> &[Token] {
        &self.tokens
    }

    /// The only name that matches, if the pattern has nothing special.
    pub fn exact(&self) -> Option<&str> {
        match self.tokens.as_slice() {
            [] => Some(""),
            [Token::Literal(text)] => Some(text),
            _ => None,
        }
    }

    /// A `LIKE` pattern (with `\` as its escape) that selects what the pattern matches, and, where it has a class,
    /// also names with another character in that place.
    pub fn like(&self) -> String {
        let mut out = String::new();
        for token in &self.tokens {
            match token {
                Token::Literal(text) => text.chars().for_each(|c| push_literal(&mut out, c)),
                Token::AnyRun => out.push('%'),
                Token::AnyChar | Token::Class(_) => out.push('_'),
            }
        }
        out
    }

    /// Where the pattern has a class: a Postgres regular expression (ARE) that matches exactly what the pattern does.
    pub fn regex(&self) -> Option<String> {
        if !self.tokens.iter().any(|token| matches!(token, Token::Class(_))) {
            return None;
        }
        let mut out = String::from("^(?:");
        for token in &self.tokens {
            match token {
                Token::Literal(text) => text.chars().for_each(|c| push_regex(&mut out, c)),
                Token::AnyRun => out.push_str(".*"),
                Token::AnyChar => out.push('.'),
                Token::Class(class) => class.push_regex(&mut out),
            }
        }
        out.push_str(")$");
        Some(out)
    }

    /// Bounds by code point of the names that can match: the least, and the first beyond (none when nothing lies
    /// beyond). `None` where the pattern begins with something that is not literal. A class that follows the literal
    /// text, or begins the pattern, narrows the bounds.
    pub fn prefix(&self) -> Option<(String, Option<String>)> {
        let (literal, rest) = match self.tokens.as_slice() {
            [Token::Literal(text), rest @ ..] => (text.as_str(), rest),
            tokens => ("", tokens),
        };
        let (mut lower, mut upper) = (literal.to_owned(), literal.to_owned());
        if let Some(Token::Class(Class { negated: false, ranges })) = rest.first() {
            lower.extend(ranges.iter().map(|range| range.0).min());
            upper.extend(ranges.iter().map(|range| range.1).max());
        }
        (!lower.is_empty()).then(|| (lower, successor(&upper)))
    }

    /// The length in characters of the longest literal text: what a trigram index can use.
    pub fn longest_literal(&self) -> usize {
        let literals = self.tokens.iter().map(|token| match token {
            Token::Literal(text) => text.chars().count(),
            _ => 0,
        });
        literals.max().unwrap_or(0)
    }
}

impl Class {
    /// Appends the bracket expression. A class of nothing becomes that of U+0000, which no text in Postgres holds.
    pub(super) fn push_regex(&self, out: &mut String) {
        match (self.ranges.is_empty(), self.negated) {
            (true, true) => return out.push('.'),
            (true, false) => return out.push_str(r"[^\u0001-\U0010FFFF]"),
            (false, negated) => out.push_str(if negated { "[^" } else { "[" }),
        }
        for &(first, last) in &self.ranges {
            push_class_char(out, first);
            if last != first {
                out.push('-');
                push_class_char(out, last);
            }
        }
        out.push(']');
    }
}

/// Appends a character that means itself in an ARE.
pub(super) fn push_regex(out: &mut String, c: char) {
    if matches!(c, '.' | '^' | '$' | '*' | '+' | '?' | '(' | ')' | '[' | ']' | '{' | '}' | '|' | '\\') {
        out.push('\\');
    }
    out.push(c);
}

/// Appends a character that means itself between the brackets of an ARE, by its number where it is no letter or digit.
fn push_class_char(out: &mut String, c: char) {
    if c.is_ascii_alphanumeric() {
        out.push(c);
    } else {
        // Writing to a string cannot fail.
        let _ = write!(out, "\\U{:08X}", u32::from(c));
    }
}

/// The class whose text begins at `start`, after its `[`, and where the rest of the pattern begins.
pub(super) fn class(chars: &[char], start: usize) -> Option<(Class, usize)> {
    let negated = chars.get(start) == Some(&'!');
    let body = start + usize::from(negated);
    // What comes first belongs to the class, even a `]`.
    let end = body + 1 + chars.get(body + 1..)?.iter().position(|&c| c == ']')?;
    let mut ranges = Vec::new();
    let mut rest = &chars[body..end];
    while let [first, tail @ ..] = rest {
        let (last, tail) = match tail {
            ['-', last, tail @ ..] => (last, tail),
            _ => (first, tail),
        };
        if first <= last {
            ranges.push((*first, *last));
        }
        rest = tail;
    }
    Some((Class { negated, ranges }, end + 1))
}

/// The error for a class that does not end. [`glob::Pattern`](::glob::Pattern) finds it first.
pub(super) fn unclosed() -> GlobError {
    GlobError::Syntax("`[` without a closing `]`".into())
}

/// Makes one `*` of each run of them that stands outside of classes.
fn collapse(pattern: &str) -> String {
    let chars: Vec<char> = pattern.chars().collect();
    let mut out = String::with_capacity(pattern.len());
    let mut at = 0;
    while let Some(&c) = chars.get(at) {
        let end = match c {
            '[' => class(&chars, at + 1).map_or(at + 1, |(_, end)| end),
            '*' if at > 0 && out.ends_with('*') && chars[at - 1] == '*' => {
                at += 1;
                continue;
            }
            _ => at + 1,
        };
        out.extend(&chars[at..end]);
        at = end;
    }
    out
}

/// The least text that lies beyond every text that begins with `prefix`, by code point.
fn successor(prefix: &str) -> Option<String> {
    let mut chars: Vec<char> = prefix.chars().collect();
    while let Some(last) = chars.pop() {
        let next = match last {
            '\u{D7FF}' => Some('\u{E000}'),
            last => char::from_u32(u32::from(last) + 1),
        };
        if let Some(next) = next {
            chars.push(next);
            return Some(chars.into_iter().collect());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(pattern: &str) -> Glob {
        Glob::parse(pattern).unwrap()
    }

    fn range(lower: &str, upper: Option<&str>) -> Option<(String, Option<String>)> {
        Some((lower.into(), upper.map(str::to_owned)))
    }

    macro_rules! targets {
        ($($name:ident: $pattern:expr => $like:expr, $regex:expr;)*) => {
            $(#[test] fn $name() {
                let glob = parse($pattern);
                let regex: Option<&str> = $regex;
                assert_eq!((glob.like().as_str(), glob.regex().as_deref()), ($like, regex));
            })*
        };
    }

    targets! {
        empty: "" => "", None;
        literal: "core.md" => "core.md", None;
        star: "*.md" => "%.md", None;
        runs_of_stars: "a***b**" => "a%b%", None;
        question_mark: "report-?.json" => "report-_.json", None;
        sql_characters: r"a%b_c\d" => r"a\%b\_c\\d", None;
        slashes_are_plain: "**/x" => "%/x", None;
        class_of_letters: "[abc]" => "_", Some("^(?:[abc])$");
        class_of_a_range: "[a-f]*.md" => "_%.md", Some(r"^(?:[a-f].*\.md)$");
        class_negated: "[!a-f]?" => "__", Some("^(?:[^a-f].)$");
        class_of_brackets: "[[]x[]].md" => r"_x_.md", Some(r"^(?:[\U0000005B]x[\U0000005D]\.md)$");
        class_of_its_end_and_more: "[]a]" => "_", Some(r"^(?:[\U0000005Da])$");
        class_of_a_caret: "[^a]" => "_", Some(r"^(?:[\U0000005Ea])$");
        class_of_a_hyphen: "[a-]" => "_", Some(r"^(?:[a\U0000002D])$");
        class_of_stars: "[**]" => "_", Some(r"^(?:[\U0000002A\U0000002A])$");
        class_of_an_astral_range: "[𝄀-𝄞]" => "_", Some(r"^(?:[\U0001D100-\U0001D11E])$");
        class_backwards: "[z-a]" => "_", Some(r"^(?:[^\u0001-\U0010FFFF])$");
        class_backwards_negated: "[!z-a]" => "_", Some("^(?:.)$");
        regex_characters: r"a.b(c)+$^|{2}\[x]" => r"a.b(c)+$^|{2}\\_", Some(r"^(?:a\.b\(c\)\+\$\^\|\{2\}\\[x])$");
    }

    macro_rules! prefixes {
        ($($name:ident: $pattern:expr => $range:expr;)*) => {
            $(#[test] fn $name() { assert_eq!(parse($pattern).prefix(), $range); })*
        };
    }

    prefixes! {
        no_prefix: "*.md" => None;
        no_prefix_of_any_character: "?a" => None;
        no_prefix_of_nothing: "" => None;
        no_prefix_of_a_negated_class: "[!a]b" => None;
        prefix: "report-*" => range("report-", Some("report."));
        prefix_of_all: "core" => range("core", Some("corf"));
        prefix_and_class: "report-[a-c]*" => range("report-a", Some("report-d"));
        prefix_and_several_ranges: "r[x0-9b-c]" => range("r0", Some("ry"));
        prefix_and_negated_class: "r[!x]" => range("r", Some("s"));
        prefix_and_class_of_nothing: "r[z-a]" => range("r", Some("s"));
        class_first: "[a-f]*.md" => range("a", Some("g"));
        prefix_before_surrogates: "a\u{D7FF}*" => range("a\u{D7FF}", Some("a\u{E000}"));
        prefix_at_the_end: "a\u{10FFFF}*" => range("a\u{10FFFF}", Some("b"));
        prefix_with_nothing_beyond: "\u{10FFFF}\u{10FFFF}*" => range("\u{10FFFF}\u{10FFFF}", None);
    }

    macro_rules! errors {
        ($($name:ident: $pattern:expr;)*) => {
            $(#[test] fn $name() { assert!(matches!(Glob::parse($pattern), Err(GlobError::Syntax(_)))); })*
        };
    }

    errors! {
        unclosed_class: "report-[";
        unclosed_class_with_text: "[abc";
        empty_class: "[]";
        empty_negated_class: "[!]";
        unclosed_class_of_its_end: "x[]*";
    }

    #[test]
    fn limits() {
        assert_eq!(Glob::parse(&"*".repeat(1025)), Err(GlobError::TooLong));
        assert_eq!(Glob::parse("a\0"), Err(GlobError::Nul));
    }

    #[test]
    fn literals() {
        assert_eq!(parse("core.md").exact(), Some("core.md"));
        assert_eq!(parse("").exact(), Some(""));
        assert_eq!(parse("core*").exact(), None);
        assert_eq!(parse("a*日本語?bc").longest_literal(), 3);
        assert_eq!(parse("*?").longest_literal(), 0);
    }

    /// What `LIKE` and the range of names select, for patterns without a class.
    fn selects(glob: &Glob, name: &str) -> bool {
        let in_range = glob.prefix().is_none_or(|(lower, upper)| {
            name >= lower.as_str() && upper.is_none_or(|upper| name < upper.as_str())
        });
        let pattern = glob.regex().unwrap_or_else(|| like_as_regex(&glob.like()));
        in_range
            && regex::RegexBuilder::new(&pattern).dot_matches_new_line(true).build().unwrap().is_match(name)
    }

    fn like_as_regex(like: &str) -> String {
        let mut out = String::from("^");
        let mut chars = like.chars();
        while let Some(c) = chars.next() {
            match c {
                '%' => out.push_str(".*"),
                '_' => out.push('.'),
                '\\' => push_regex(&mut out, chars.next().unwrap()),
                c => push_regex(&mut out, c),
            }
        }
        out + "$"
    }

    /// Few characters, so that patterns and names meet often.
    fn text() -> impl Strategy<Value = String> {
        let chars: Vec<char> =
            "aabcz%_\\[]!^*?-'\"\n\r/.é日\u{301}𝄞\u{10FFFF}\u{D7FF}\u{E000}".chars().collect();
        prop::collection::vec(prop::sample::select(chars), 0..9).prop_map(|chars| chars.into_iter().collect())
    }

    /// A pattern made of a name: some characters become special.
    fn pattern_and_name() -> impl Strategy<Value = (String, String)> {
        (text(), prop::collection::vec(0..10u8, 9)).prop_map(|(name, kinds)| {
            let pattern = name.chars().zip(kinds).map(|(c, kind)| match kind {
                0 => "?".into(),
                1 => "*".into(),
                2 => "**".into(),
                3 => format!("[{c}]"),
                4 => format!("[!{c}]"),
                5 => format!("[!-{c}]"),
                6 => format!("[a-{c}b]"),
                _ => c.to_string(),
            });
            (pattern.collect(), name)
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        #[test]
        fn selects_what_the_glob_crate_matches(
            (pattern, name) in prop_oneof![(text(), text()), pattern_and_name()]
        ) {
            let crate_says = ::glob::Pattern::new(&collapse(&pattern));
            match Glob::parse(&pattern) {
                Ok(glob) => prop_assert_eq!(selects(&glob, &name), crate_says.unwrap().matches(&name)),
                Err(_) => prop_assert!(crate_says.is_err()),
            }
        }
    }
}
