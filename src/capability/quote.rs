//! Whether a quote stands in a text. White space is normalised, nothing else: any run of it equals any other, and none is
//! needed at the ends of the quote.

use crate::provenance::lines::{LineIndex, LineRange};

/// The longest quote, in bytes.
pub const MAX_QUOTE: usize = 64 * 1024;

/// The lines of the first place where the quote stands; none where it does not. A quote of white space alone stands
/// nowhere.
pub fn find(text: &str, quote: &str) -> Option<LineRange> {
    let wanted = one_spaced(quote)?;
    let (hay, origin) = normalised(text);
    let at = hay.find(&wanted)?;
    let index = LineIndex::of(text);
    // The first and the last character of a quote are no white space, so each comes from one place.
    Some(LineRange::new(index.line_of(origin[at]), index.line_of(origin[at + wanted.len() - 1])))
}

/// The quote with one space for each run of white space within it, and none at its ends; none where nothing is left.
pub fn one_spaced(quote: &str) -> Option<String> {
    let spaced = normalised(quote).0;
    let spaced = spaced.trim_matches(' ');
    (!spaced.is_empty()).then(|| spaced.to_owned())
}

/// The text with one space for each run of white space, and for each byte of it the byte of the original.
fn normalised(text: &str) -> (String, Vec<usize>) {
    let mut out = String::with_capacity(text.len());
    let mut origin = Vec::with_capacity(text.len());
    for (at, c) in text.char_indices() {
        match c.is_whitespace() {
            true if out.ends_with(' ') => {}
            true => {
                out.push(' ');
                origin.push(at);
            }
            false => {
                out.push(c);
                origin.extend(at..at + c.len_utf8());
            }
        }
    }
    (out, origin)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_alone_is_normalised() {
        let text = "# Guide\n\n  Step   one,\r\n\tstep two.\n\u{a0}Ünd drei.\n";
        for (quote, lines) in [
            ("Step one, step two.", Some("3-4")),
            (" step\n two.  Ünd ", Some("4-5")),
            ("# Guide Step", Some("1-3")),
            ("drei.", Some("5")),
            ("step one", None),
            ("Stepone", None),
            ("Step one , step", None),
            (" \n", None),
            ("", None),
        ] {
            assert_eq!(find(text, quote).map(|lines| lines.to_string()).as_deref(), lines, "{quote:?}");
        }
        assert_eq!(find("", "a"), None);
    }
}
