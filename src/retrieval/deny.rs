//! A tenant's deny globs: patterns over whole paths, as one regular expression (provenance, "Safety").
//!
//! The syntax is that of the `glob` crate over paths from the slate's root:
//!
//! | pattern | matches |
//! |---|---|
//! | `**/` | any number of leading folders, also none |
//! | `/**` | everything below |
//! | `*`, `?`, `[…]` | as in [`glob`](crate::retrieval::glob), but never a `/` |
//!
//! `**` is a whole segment or an error. A folder all of whose contents are denied is one whose path, with a `/` after
//! it, matches: `**/.git/**` matches `docs/.git/`.

use crate::error::{FieldError, pointer};
use crate::retrieval::glob::{Class, GlobError, MAX_GLOB, class, push_regex, unclosed};

/// The most deny globs that a tenant may have.
pub const MAX_DENY_GLOBS: usize = 100;
/// The most bytes that they may have together, so that the expression stays one that Postgres compiles at once.
pub const MAX_DENY_BYTES: usize = 8 * 1024;

/// One Postgres regular expression (ARE) that matches a path if any of the globs does; `None` when there are none.
/// Pointers of errors start with `/deny_globs`.
pub fn deny_regex(globs: &[String]) -> Result<Option<String>, FieldError> {
    const BASE: &str = "/deny_globs";
    if globs.is_empty() {
        return Ok(None);
    }
    if globs.len() > MAX_DENY_GLOBS || globs.iter().map(String::len).sum::<usize>() > MAX_DENY_BYTES {
        let detail = format!("may hold at most {MAX_DENY_GLOBS} globs of {MAX_DENY_BYTES} bytes together");
        return Err(FieldError::new(BASE, detail));
    }
    let mut out = String::from("^(?:");
    for (i, glob) in globs.iter().enumerate() {
        if i > 0 {
            out.push('|');
        }
        push_glob(&mut out, glob).map_err(|e| FieldError::new(pointer(BASE, i), e.to_string()))?;
    }
    out.push_str(")$");
    Ok(Some(out))
}

fn push_glob(out: &mut String, glob: &str) -> Result<(), GlobError> {
    match glob {
        "" => return Err(GlobError::Syntax("it is empty".into())),
        _ if glob.len() > MAX_GLOB => return Err(GlobError::TooLong),
        _ if glob.contains('\0') => return Err(GlobError::Nul),
        _ => ::glob::Pattern::new(glob).map_err(|e| GlobError::Syntax(e.to_string()))?,
    };
    let chars: Vec<char> = glob.chars().collect();
    let mut at = 0;
    while let Some(&c) = chars.get(at) {
        at += 1;
        match c {
            // The crate has made sure that `**` is a whole segment.
            '*' if chars.get(at) == Some(&'*') => {
                // The crate has made sure that `**` is a whole segment, and takes a last `**/` for `**`.
                at = chars.len().min(at + 2);
                out.push_str(if at == chars.len() { ".*" } else { "(?:.*/)?" });
            }
            '*' => out.push_str("[^/]*"),
            '?' => out.push_str("[^/]"),
            '[' => {
                let (class, end) = class(&chars, at).ok_or_else(unclosed)?;
                within_segment(class).push_regex(out);
                at = end;
            }
            c => push_regex(out, c),
        }
    }
    Ok(())
}

/// The class without `/`.
fn within_segment(mut class: Class) -> Class {
    if class.negated {
        class.ranges.push(('/', '/'));
        return class;
    }
    let split = class.ranges.iter().flat_map(|&(first, last)| match (first..=last).contains(&'/') {
        true => [(first, '.'), ('0', last)],
        false => [(first, last), ('1', '0')],
    });
    class.ranges = split.filter(|(first, last)| first <= last).collect();
    class
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn regex_of(globs: &[&str]) -> String {
        deny_regex(&globs.iter().map(|g| g.to_string()).collect::<Vec<_>>()).unwrap().unwrap()
    }

    fn denies(globs: &[&str], path: &str) -> bool {
        let regex = regex::RegexBuilder::new(&regex_of(globs)).dot_matches_new_line(true).build().unwrap();
        regex.is_match(path)
    }

    const DEFAULTS: &[&str] = &["**/.env", "**/.env.*", "**/*.pem", "**/id_rsa", "**/.git/**"];

    macro_rules! table {
        ($($name:ident: $globs:expr, $denied:expr, $allowed:expr;)*) => {
            $(#[test] fn $name() {
                for path in $denied { assert!(denies($globs, path), "{path} is denied"); }
                for path in $allowed { assert!(!denies($globs, path), "{path} is allowed"); }
            })*
        };
    }

    table! {
        the_defaults: DEFAULTS,
            [".env", "a/.env", "a/b/.env.local", "x.pem", "a/.pem", "id_rsa", ".git/config", "a/.git/x/y", "a/.git/"],
            ["env", ".environment", "a.env", "a/.env/x", "x.pem/y", ".git", "a/.gitignore", "a.git/x", "my_id_rsa"];
        one_segment: &["secret/*.md"], ["secret/a.md", "secret/.md"], ["secret/a/b.md", "x/secret/a.md"];
        in_the_middle: &["a/**/b"], ["a/b", "a/x/b", "a/x/y/b"], ["ab", "a/xb", "x/a/b"];
        everything: &["**/"], ["a", "a/b", "new\nline"], [""; 0];
        everything_again: &["**"], ["a", "a/b", "new\nline"], [""; 0];
        every_folder: &["**/**/x"], ["x", "a/x", "a/b/x"], ["ax"];
        question_mark: &["a?b"], ["axb", "a\nb", "a𝄞b"], ["a/b", "ab"];
        classes_never_match_a_slash: &["a[!x]b", "c[.-0]d", "e[/]f"],
            ["ayb", "c.d", "c0d"], ["a/b", "axb", "c/d", "e/f"];
        plain_characters: &["a.b|c"], ["a.b|c"], ["axb|c", "a.b", "c"];
    }

    #[test]
    fn none_is_none() {
        assert_eq!(deny_regex(&[]), Ok(None));
        assert_eq!(regex_of(&["**/.env", "a/*"]), r"^(?:(?:.*/)?\.env|a/[^/]*)$");
    }

    #[test]
    fn errors_point_at_the_glob() {
        let at = |globs: &[&str]| {
            let globs: Vec<_> = globs.iter().map(|g| g.to_string()).collect();
            deny_regex(&globs).unwrap_err().pointer
        };
        for bad in ["a[", "a**", "***", "", "a\0", "**a/b"] {
            assert_eq!(at(&["ok", bad]), "/deny_globs/1", "{bad:?}");
        }
        assert_eq!(at(&["x".repeat(1025).as_str()]), "/deny_globs/0");
        assert_eq!(at(&vec!["x"; MAX_DENY_GLOBS + 1]), "/deny_globs");
        assert_eq!(at(&["x".repeat(1000).as_str(); 9]), "/deny_globs");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn matches_what_the_glob_crate_matches(
            pieces in prop::collection::vec(
                prop::sample::select(vec!["**/", "/", "a", "b", "*", "?", "[!a]", "[a-b/]", ".", "/**"]), 1..7),
            path in "[ab.\n𝄞/]{0,8}",
        ) {
            let glob = pieces.concat();
            let literal = ::glob::MatchOptions { require_literal_separator: true, ..::glob::MatchOptions::new() };
            match ::glob::Pattern::new(&glob) {
                Ok(pattern) =>
                    prop_assert_eq!(denies(&[&glob], &path), pattern.matches_with(&path, literal), "{}", glob),
                Err(_) => prop_assert!(deny_regex(&[glob]).is_err()),
            }
        }
    }
}
