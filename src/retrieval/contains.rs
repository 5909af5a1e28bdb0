//! Literal text as a `LIKE` pattern (retrieval semantics §3.4): `%`, `_` and `\` mean themselves.
//!
//! The patterns rely on the default escape character of `LIKE`, the backslash.

/// The pattern of every text that contains `text`. The empty text gives `%%`, which every text matches.
pub fn like(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('%');
    text.chars().for_each(|c| push_literal(&mut out, c));
    out.push('%');
    out
}

/// The pattern of every text that starts with `text`.
pub fn prefix(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 1);
    text.chars().for_each(|c| push_literal(&mut out, c));
    out.push('%');
    out
}

/// Whether a trigram index can narrow a search for the text: it has three letters or digits in a row.
pub fn has_trigram(text: &str) -> bool {
    text.split(|c: char| !c.is_alphanumeric()).any(|word| word.chars().nth(2).is_some())
}

/// Appends one character that means itself.
pub(super) fn push_literal(out: &mut String, c: char) {
    if matches!(c, '%' | '_' | '\\') {
        out.push('\\');
    }
    out.push(c);
}

#[cfg(test)]
mod tests {
    use super::*;

    macro_rules! table {
        ($($name:ident: $text:expr => $like:expr;)*) => {
            $(#[test] fn $name() { assert_eq!(like($text), $like); })*
        };
    }

    #[test]
    fn trigrams_need_three_letters_in_a_row() {
        for (text, has) in
            [("abc", true), ("ab", false), ("ab-cd", false), ("-a1é", true), ("---", false), ("", false)]
        {
            assert_eq!(has_trigram(text), has, "{text:?}");
        }
    }

    table! {
        plain: "security" => "%security%";
        empty: "" => "%%";
        percent: "50%" => r"%50\%%";
        underscore: "off_now" => r"%off\_now%";
        backslash: r"back\slash" => r"%back\\slash%";
        a_backslash_before_percent: r"\%" => r"%\\\%%";
        glob_characters_mean_themselves: "[x] *?" => "%[x] *?%";
        beyond_ascii: "é\u{301}日𝄞\n'\"" => "%é\u{301}日𝄞\n'\"%";
    }
}
