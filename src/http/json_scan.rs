//! What a JSON reader would lose in silence: numbers that fit neither 64 bits nor a double, and members that are there
//! twice (REST contract, "Errors").

use std::borrow::Cow;
use std::collections::HashSet;

use crate::error::{FieldError, pointer};

enum Level<'a> {
    Array(usize),
    Object { names: HashSet<Cow<'a, str>>, name: Option<Cow<'a, str>> },
}

/// Looks for them in a text that is well-formed JSON.
///
/// # Errors
/// The first one, by its pointer.
pub fn check(text: &str) -> Result<(), FieldError> {
    let bytes = text.as_bytes();
    let mut levels: Vec<Level> = Vec::new();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let start = at;
        at += 1;
        match byte {
            b'{' => levels.push(Level::Object { names: HashSet::new(), name: None }),
            b'[' => levels.push(Level::Array(0)),
            b'}' | b']' => {
                levels.pop();
            }
            b',' => match levels.last_mut() {
                Some(Level::Array(index)) => *index += 1,
                Some(Level::Object { name, .. }) => *name = None,
                None => {}
            },
            b'"' => {
                at = end_of_string(bytes, at);
                if let Some(Level::Object { names, name: name @ None }) = levels.last_mut() {
                    let read = unquote(&text[start..at]);
                    let new = names.insert(read.clone());
                    *name = Some(read);
                    if !new {
                        return Err(FieldError::new(here(&levels), "the member is there twice"));
                    }
                }
            }
            b'-' | b'0'..=b'9' => {
                let rest = &bytes[at..];
                at += rest
                    .iter()
                    .take_while(|b| matches!(b, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-'))
                    .count();
                if let Err(detail) = number(&text[start..at]) {
                    return Err(FieldError::new(here(&levels), detail));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn number(text: &str) -> Result<(), &'static str> {
    if text.contains(['.', 'e', 'E']) {
        let finite = text.parse::<f64>().is_ok_and(f64::is_finite);
        return if finite { Ok(()) } else { Err("the number does not fit a double") };
    }
    let fits = text.parse::<i64>().is_ok() || text.parse::<u64>().is_ok();
    if fits { Ok(()) } else { Err("the integer does not fit 64 bits") }
}

/// The index after the closing quote of the string whose contents begin at `at`.
fn end_of_string(bytes: &[u8], mut at: usize) -> usize {
    while let Some(&byte) = bytes.get(at) {
        at += 1;
        match byte {
            b'"' => return at,
            b'\\' => at += 1,
            _ => {}
        }
    }
    bytes.len()
}

/// A name that cannot be read, such as half of a surrogate pair, stands for itself: the reader will refuse it.
fn unquote(quoted: &str) -> Cow<'_, str> {
    match quoted.contains('\\') {
        false => Cow::Borrowed(quoted.trim_matches('"')),
        true => serde_json::from_str(quoted).map_or(Cow::Borrowed(quoted), Cow::Owned),
    }
}

fn here(levels: &[Level]) -> String {
    levels.iter().fold(String::new(), |base, level| match level {
        Level::Array(index) => pointer(&base, index),
        Level::Object { name: Some(name), .. } => pointer(&base, name),
        Level::Object { name: None, .. } => base,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    macro_rules! table {
        ($($name:ident: $text:expr => $pointer:expr;)*) => {
            $(#[test] fn $name() {
                let found = check($text).err().map(|error| error.pointer);
                assert_eq!(found.as_deref(), $pointer);
            })*
        };
    }

    table! {
        the_ends_of_64_bits: "[-9223372036854775808, 18446744073709551615, 0, -0]" => None;
        below_64_bits: "-9223372036854775809" => Some("");
        above_64_bits: r#"{"a": {"b/c": [0, 18446744073709551616]}}"# => Some("/a/b~1c/1");
        doubles: "[1.5e308, 1e-400, -2.5]" => None;
        a_double_too_large: r#"{"a":[{}, {"x":1},-1e400]}"# => Some("/a/2");
        digits_in_strings: r#"{"a":"99999999999999999999","1e400":"\"1e400"}"# => None;
        brackets_in_strings: r#"{"a":"}{][,\\","b":[",",1e999]}"# => Some("/b/1");
        a_member_twice: r#"{"a":{"x":1,"y":{"x":1},"x":2}}"# => Some("/a/x");
        a_member_twice_in_two_spellings: r#"[{"a":1,"\u0061":2}]"# => Some("/0/a");
        the_same_name_in_two_objects: r#"[{"a":1},{"a":1}]"# => None;
        a_value_that_equals_a_name: r#"{"a":"a","b":"a"}"# => None;
    }
}
