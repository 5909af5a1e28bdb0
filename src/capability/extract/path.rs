//! What a JSONPath may cost. Evaluating one gives every node as often as there are ways to it, and a filter is evaluated
//! for each candidate, so a short path can take longer than anybody lives: `$..*..*..*`, `$[0,0][0,0][0,0]`. The cost is
//! estimated from the path's text and the size of the data before anything is evaluated, never below what it can be.

use serde_json::Value;

/// The most steps that a path may take; each is some 50 ns.
pub const MAX_STEPS: f64 = 50e6;
/// What compiling a pattern costs at least, in steps; it is compiled for each candidate.
const PATTERN: f64 = 1000.0;
/// And at most: the engine refuses larger ones.
const LARGEST_PATTERN: f64 = 1e6;

/// How large data are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Extent {
    /// Values, and texts by their length.
    pub values: f64,
    /// Levels.
    pub depth: f64,
}

impl Extent {
    /// Measures a value.
    pub fn of(value: &Value) -> Extent {
        let below = |values: &mut dyn Iterator<Item = &Value>| {
            values.map(Extent::of).fold(Extent { values: 1.0, depth: 1.0 }, |sum, one| Extent {
                values: sum.values + one.values,
                depth: sum.depth.max(one.depth + 1.0),
            })
        };
        match value {
            Value::Array(elements) => below(&mut elements.iter()),
            Value::Object(members) => below(&mut members.values()),
            Value::String(text) => Extent { values: 1.0 + text.len() as f64 / 16.0, depth: 1.0 },
            _ => Extent { values: 1.0, depth: 1.0 },
        }
    }
}

/// The steps that a path, which must be one, may take on data of this size.
pub fn steps(path: &str, of: Extent) -> f64 {
    let bytes = path.as_bytes();
    // For each bracket that is open, how many selectors it has; 0 for a parenthesis, whose commas are of arguments.
    let mut open: Vec<f64> = Vec::new();
    // Of each parenthesis that is open, whether it holds arguments.
    let mut calls: Vec<bool> = Vec::new();
    let (mut factor, mut descents, mut absolute) = (1.0, 0_i32, 0_i32);
    let mut at = 1;
    while at < bytes.len() {
        match bytes[at] {
            quote @ (b'\'' | b'"') => at = text_end(bytes, at, quote),
            b'.' if bytes.get(at + 1) == Some(&b'.') => {
                descents += 1;
                at += 1;
            }
            b'[' => open.push(1.0),
            b']' => factor *= open.pop().unwrap_or(1.0).max(1.0),
            b'(' => {
                let name = path[..at].trim_end();
                calls.push(name.ends_with(|c: char| c.is_ascii_lowercase()));
                open.push(0.0);
                if name.ends_with("match") || name.ends_with("search") {
                    factor *= pattern(&path[at + 1..]);
                }
            }
            b')' => {
                calls.pop();
                open.pop();
            }
            b',' => open.iter_mut().rev().take(1).filter(|n| **n > 0.0).for_each(|n| *n += 1.0),
            b'@' if !is_singular(&bytes[at + 1..]) => factor *= of.depth,
            b'$' => {
                absolute += 1;
                // One that is compared takes no longer than what it is compared with.
                if absolute > 1 || calls.contains(&true) || !is_singular(&bytes[at + 1..]) {
                    factor *= of.values;
                }
            }
            _ => {}
        }
        at += 1;
    }
    // From the root every value is reached once.
    of.values * factor * of.depth.powi((descents - 1).max(0))
}

/// How many brackets and parentheses are open at once at most, texts passed over.
pub fn nesting(path: &str) -> usize {
    let bytes = path.as_bytes();
    let (mut at, mut depth, mut most) = (0, 0_usize, 0);
    while at < bytes.len() {
        match bytes[at] {
            quote @ (b'\'' | b'"') => at = text_end(bytes, at, quote),
            b'[' | b'(' => {
                depth += 1;
                most = most.max(depth);
            }
            b']' | b')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    most
}

/// The last byte of a text that begins here.
fn text_end(bytes: &[u8], mut at: usize, quote: u8) -> usize {
    at += 1;
    while at < bytes.len() && bytes[at] != quote {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    at
}

/// Whether a query, after its `@` or `$`, can lead to one value only.
fn is_singular(rest: &[u8]) -> bool {
    let (mut depth, mut at) = (0_usize, 0);
    while at < rest.len() {
        match rest[at] {
            quote @ (b'\'' | b'"') => at = text_end(rest, at, quote),
            b'*' | b'?' | b':' => return false,
            b'.' if rest.get(at + 1) == Some(&b'.') => return false,
            b',' if depth > 0 => return false,
            b'[' => depth += 1,
            b']' if depth > 0 => depth -= 1,
            b']' | b',' | b')' | b'=' | b'<' | b'>' | b'!' | b'&' | b'|' => return true,
            _ => {}
        }
        at += 1;
    }
    true
}

/// The steps of compiling the pattern of a call, whose arguments begin here.
fn pattern(arguments: &str) -> f64 {
    let bytes = arguments.as_bytes();
    // The last text of the arguments is the pattern.
    let (mut at, mut depth, mut last) = (0, 0_i32, None);
    while at < bytes.len() && depth >= 0 {
        match bytes[at] {
            quote @ (b'\'' | b'"') => {
                let end = text_end(bytes, at, quote).min(bytes.len());
                last = Some(&bytes[at..end]);
                at = end;
            }
            b'@' | b'$' => last = None,
            b'(' => depth += 1,
            b')' => depth -= 1,
            _ => {}
        }
        at += 1;
    }
    // What the data hold may be any pattern.
    let Some(text) = last else { return LARGEST_PATTERN };
    let numbers = text.split(|b| !b.is_ascii_digit()).filter_map(|digits| str::from_utf8(digits).ok());
    let times: f64 = numbers.filter_map(|digits| digits.parse::<f64>().ok()).filter(|n| *n > 1.0).product();
    (PATTERN + 20.0 * text.len() as f64 * times).min(LARGEST_PATTERN)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const LARGE: Extent = Extent { values: 100_000.0, depth: 10.0 };

    #[test]
    fn what_people_ask_is_cheap() {
        for path in [
            "$",
            "$.items[*].name",
            "$.items[?@.n > 1]",
            "$..book[?@.price < $.limit].title",
            "$.items[?@.a == 'x' && (@.b == 2 || @['c,d'] != 'e..f$')]",
            "$.a[0,1,2]['b','c']",
            "$.items[0:10].tags[?@ == 'x']",
        ] {
            assert!(steps(path, LARGE) <= MAX_STEPS, "{path}: {}", steps(path, LARGE));
        }
        let small = Extent { values: 2_000.0, depth: 5.0 };
        for path in ["$[?match(@.d, '\\\\d{4}-\\\\d{2}')]", "$..[?search(@.name, 'Ada')]", "$..*..name"] {
            assert!(steps(path, small) <= MAX_STEPS, "{path}: {}", steps(path, small));
        }
    }

    #[test]
    fn what_takes_for_ever_is_not() {
        let deep = Extent { values: 200.0, depth: 100.0 };
        for (path, of) in [
            ("$..*..*..*..*..*", deep),
            ("$..[*]..[*]..[*]..[*]", deep),
            (
                "$[0,0][0,0][0,0][0,0][0,0][0,0][0,0][0,0][0,0][0,0][0,0][0,0][0,0][0,0][0,0][0,0][0,0][0,0]",
                deep,
            ),
            ("$[?$..*]", LARGE),
            ("$[?count($..a) > 1]", LARGE),
            ("$[?length($.big) > 1]", LARGE),
            ("$[?$.big == $.big]", LARGE),
            ("$..[?@..[?@..[?@..[?@..a]]]]", deep),
            ("$[?match(@.a, '(a{1000}){1000}')]", LARGE),
            ("$[?match(@.a, @.b)]", LARGE),
        ] {
            assert!(steps(path, of) > MAX_STEPS, "{path}: {}", steps(path, of));
        }
    }

    #[test]
    fn values_are_measured() {
        let extent = Extent::of(&json!({"a": [1, [2]], "b": "x".repeat(32)}));
        assert_eq!(extent, Extent { values: 8.0, depth: 4.0 });
    }
}
