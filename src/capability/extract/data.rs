//! Data: the nodes that JSONPaths select (RFC 9535), and the members that JSON Pointers keep (RFC 6901).

use serde_json::{Map, Value};
use serde_json_path::JsonPath;

use super::path::{self, Extent};

/// The most nodes that filters may select.
pub const MAX_NODES: usize = 100_000;
/// The most that the nodes may hold together, in bytes of text, each value counted as 16 more: a value within selected
/// ones is given again with each.
pub const MAX_SELECTED: usize = 32 << 20;
/// The most brackets that a path may have open at once: each takes some of the stack.
const MAX_NESTED: usize = 16;

/// A JSONPath.
#[derive(Debug, Clone)]
pub struct Filter {
    text: String,
    path: JsonPath,
}

impl Filter {
    /// Parses a JSONPath.
    ///
    /// # Errors
    /// A sentence.
    pub fn parse(text: String) -> Result<Filter, String> {
        if path::nesting(&text) > MAX_NESTED {
            return Err(format!("must not have more than {MAX_NESTED} brackets within each other"));
        }
        match JsonPath::parse(&text) {
            Ok(path) => Ok(Filter { text, path }),
            Err(error) => Err(format!("is no JSONPath (RFC 9535): {}", error.message())),
        }
    }
}

/// The nodes that the filters select, in the order of the filters, as an array. Values within values may be selected more
/// than once.
///
/// # Errors
/// A sentence when there are too many, or when it would take too long to tell.
pub fn filter(data: &Value, filters: &[Filter]) -> Result<Value, String> {
    let extent = Extent::of(data);
    if filters.iter().map(|filter| path::steps(&filter.text, extent)).sum::<f64>() > path::MAX_STEPS {
        return Err("the filter would take too long on data of this size".into());
    }
    let (mut nodes, mut left) = (Vec::new(), MAX_SELECTED);
    for filter in filters {
        for node in filter.path.query(data).iter() {
            if nodes.len() == MAX_NODES || !fits(node, &mut left) {
                return Err(format!("the filter selects more than {MAX_NODES} values, or too large ones"));
            }
            nodes.push((*node).clone());
        }
    }
    Ok(Value::Array(nodes))
}

/// Whether a value is within what is left, which is lessened by it.
fn fits(value: &Value, left: &mut usize) -> bool {
    let size = 16 + value.as_str().map_or(0, str::len);
    let Some(rest) = left.checked_sub(size) else { return false };
    *left = rest;
    match value {
        Value::Array(elements) => elements.iter().all(|element| fits(element, left)),
        Value::Object(members) => members.iter().all(|(name, member)| {
            *left = left.saturating_sub(name.len());
            fits(member, left)
        }),
        _ => true,
    }
}

/// What the pointers keep, where it was: an object keeps the members that are pointed to, an array the elements. Where the
/// data is an array and a pointer does not begin with an index, it is looked for in each element.
///
/// # Errors
/// A sentence for a pointer that leads nowhere; in an array, nowhere in any element.
pub fn project(data: &Value, pointers: &[String]) -> Result<Value, String> {
    let tokens: Vec<Vec<String>> = pointers.iter().map(|pointer| tokens(pointer)).collect();
    let by_element = data.is_array()
        && !tokens
            .iter()
            .any(|tokens| tokens.first().is_none_or(|token| token.bytes().all(|b| b.is_ascii_digit())));
    let mut found = vec![false; pointers.len()];
    let kept = match data {
        Value::Array(elements) if by_element => {
            // What has no members at all keeps none: it is left out.
            let inner = elements.iter().filter(|element| element.is_object() || element.is_array());
            Value::Array(inner.map(|element| keep(element, &tokens, &mut found)).collect())
        }
        _ => keep(data, &tokens, &mut found),
    };
    match found.iter().position(|found| !found) {
        Some(lost) if !matches!(data, Value::Array(elements) if by_element && elements.is_empty()) => {
            Err(format!("the field {:?} is not in the data", pointers[lost]))
        }
        _ => Ok(kept),
    }
}

fn tokens(pointer: &str) -> Vec<String> {
    pointer.split('/').skip(1).map(|token| token.replace("~1", "/").replace("~0", "~")).collect()
}

/// What the token lists keep of a value; `found` is set for those that lead to something.
fn keep(value: &Value, pointers: &[Vec<String>], found: &mut [bool]) -> Value {
    let paths: Vec<(usize, &[String])> =
        pointers.iter().enumerate().map(|(i, tokens)| (i, &tokens[..])).collect();
    keep_paths(value, &paths, found)
}

fn keep_paths(value: &Value, paths: &[(usize, &[String])], found: &mut [bool]) -> Value {
    if let Some((i, _)) = paths.iter().find(|(_, tokens)| tokens.is_empty()) {
        found[*i] = true;
        // All others lead into what is kept whole.
        for (i, tokens) in paths {
            found[*i] |= at(value, tokens);
        }
        return value.clone();
    }
    let below = |name: &str| -> Vec<(usize, &[String])> {
        paths.iter().filter(|(_, tokens)| tokens[0] == name).map(|(i, tokens)| (*i, &tokens[1..])).collect()
    };
    match value {
        Value::Object(members) => {
            let kept = members.iter().filter_map(|(name, member)| {
                let below = below(name);
                (below.iter().any(|(_, tokens)| at(member, tokens)))
                    .then(|| (name.clone(), keep_paths(member, &below, found)))
            });
            Value::Object(kept.collect::<Map<_, _>>())
        }
        Value::Array(elements) => {
            let kept = elements.iter().enumerate().filter_map(|(n, element)| {
                let below = below(&n.to_string());
                (below.iter().any(|(_, tokens)| at(element, tokens)))
                    .then(|| keep_paths(element, &below, found))
            });
            Value::Array(kept.collect())
        }
        other => other.clone(),
    }
}

/// Whether the tokens lead to something.
fn at(value: &Value, tokens: &[String]) -> bool {
    let mut value = value;
    for token in tokens {
        let next = match value {
            Value::Object(members) => members.get(token),
            // An index has no leading zeros.
            Value::Array(elements) => {
                token.parse().ok().filter(|n: &usize| n.to_string() == *token).and_then(|n| elements.get(n))
            }
            _ => None,
        };
        match next {
            Some(next) => value = next,
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn projected(data: Value, pointers: &[&str]) -> Result<Value, String> {
        project(&data, &pointers.iter().map(|p| p.to_string()).collect::<Vec<_>>())
    }

    #[test]
    fn pointers_keep_what_they_lead_to() {
        let data = json!({"a": {"b": 1, "c": 2}, "d/e": [10, 20, 30], "f": null});
        for (pointers, kept) in [
            (&["/a/b"][..], json!({"a": {"b": 1}})),
            (&["/d~1e/2", "/d~1e/0"], json!({"d/e": [10, 30]})),
            (&["/a", "/a/c"], json!({"a": {"b": 1, "c": 2}})),
            (&["/f"], json!({"f": null})),
            (&[""], data.clone()),
        ] {
            assert_eq!(projected(data.clone(), pointers).unwrap(), kept, "{pointers:?}");
        }
        for lost in ["/x", "/a/b/c", "/d~1e/3", "/d~1e/01"] {
            assert!(projected(data.clone(), &["/a", lost]).unwrap_err().contains(lost), "{lost}");
        }
    }

    #[test]
    fn of_an_array_those_of_each_element() {
        let rows = json!([{"n": 1, "s": "a"}, {"n": 2}, {"s": "c"}]);
        assert_eq!(projected(rows.clone(), &["/n"]).unwrap(), json!([{"n": 1}, {"n": 2}, {}]));
        assert_eq!(projected(rows.clone(), &["/0/s"]).unwrap(), json!([{"s": "a"}]));
        assert!(projected(rows, &["/x"]).is_err());
        assert_eq!(projected(json!([1, {"n": 2}, "a", null]), &["/n"]).unwrap(), json!([{"n": 2}]));
        assert_eq!(projected(json!([]), &["/x"]).unwrap(), json!([]));
    }

    #[test]
    fn paths_select_nodes() {
        let data = json!({"items": [{"n": 1}, {"n": 2}]});
        let paths = |texts: &[&str]| {
            texts.iter().map(|text| Filter::parse(text.to_string()).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(filter(&data, &paths(&["$.items[?@.n > 1]"])).unwrap(), json!([{"n": 2}]));
        assert_eq!(filter(&data, &paths(&["$..n", "$.x"])).unwrap(), json!([1, 2]));
    }

    #[test]
    fn what_would_take_for_ever_is_refused_at_once() {
        let deep = (0..100).fold(json!(0), |inner, _| json!([inner, 1]));
        let filters = |text: &str| vec![Filter::parse(text.into()).unwrap()];
        for text in ["$..*..*..*..*..*..*", &format!("${}", "[0,0]".repeat(60)), "$..[?@..[?@..[?@..*]]]"] {
            assert!(filter(&deep, &filters(text)).unwrap_err().contains("too long"), "{text}");
        }
        // A text within a hundred arrays, each of which holds it.
        let large = (0..100).fold(json!("x".repeat(1 << 20)), |inner, _| json!([inner]));
        assert!(filter(&large, &filters("$..*")).unwrap_err().contains("too large"));
        for open in ["[?@", "[?(@.a", "[?!(@.a", "[?count(@"] {
            let text = format!("${}", open.repeat(800));
            assert!(Filter::parse(text).unwrap_err().contains("brackets"), "{open}");
        }
        let nested = format!("$[?{}@.a{}]", "(".repeat(15), ")".repeat(15));
        assert_eq!(filter(&json!([{"a": 1}]), &filters(&nested)).unwrap(), json!([{"a": 1}]));
    }
}
