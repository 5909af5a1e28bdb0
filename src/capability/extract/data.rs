//! Data: the nodes that JSONPaths select (RFC 9535), and the members that JSON Pointers keep (RFC 6901).

use serde_json::{Map, Value};
use serde_json_path::JsonPath;

/// The most nodes that a filter may select.
pub const MAX_NODES: usize = 100_000;

/// The nodes that the paths select, in the order of the paths, as an array. Values within values may be selected more
/// than once.
///
/// # Errors
/// A sentence when there are too many.
pub fn filter(data: &Value, paths: &[JsonPath]) -> Result<Value, String> {
    let mut nodes = Vec::new();
    for path in paths {
        nodes.extend(
            path.query(data)
                .iter()
                .take(MAX_NODES + 1 - nodes.len().min(MAX_NODES))
                .map(|node| (*node).clone()),
        );
        if nodes.len() > MAX_NODES {
            return Err(format!("the filter selects more than {MAX_NODES} values"));
        }
    }
    Ok(Value::Array(nodes))
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
            Value::Array(elements.iter().map(|element| keep(element, &tokens, &mut found)).collect())
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
        assert_eq!(projected(json!([]), &["/x"]).unwrap(), json!([]));
    }

    #[test]
    fn paths_select_nodes() {
        let data = json!({"items": [{"n": 1}, {"n": 2}]});
        let paths =
            |texts: &[&str]| texts.iter().map(|text| JsonPath::parse(text).unwrap()).collect::<Vec<_>>();
        assert_eq!(filter(&data, &paths(&["$.items[?@.n > 1]"])).unwrap(), json!([{"n": 2}]));
        assert_eq!(filter(&data, &paths(&["$..n", "$.x"])).unwrap(), json!([1, 2]));
    }
}
