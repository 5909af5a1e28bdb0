//! `where`: a filter tree over metatags and what else is known of a file (retrieval semantics §5).
//!
//! | node | holds for a file if |
//! |---|---|
//! | `{"all": […]}`, `{"any": […]}`, `{"not": …}` | all of them, one of them, not it |
//! | `{"tag": name, test…}` | it has the metatag, and each test that is given holds |
//! | `{"name": {"glob": …}}` | its name matches the pattern |
//! | `{"modified": {"since": …, "before": …}}` | its source was last modified then |
//! | `{"size": {"gt" \| "gte" \| "lt" \| "lte": n}}` | its contents have so many bytes |
//!
//! A test of a metatag that has another type than the test asks for is false, and so is one of a metatag that is not
//! there; the `not` of it is true.
//!
//! A member that is null is absent. No metatag is null, though: an `eq` or `ne` of null with no other test beside it is wrong,
//! since all files that have the metatag are not what it seems to ask for.

use chrono::{DateTime, Utc};
use serde_json::{Map, Value};

use crate::error::{FieldError, pointer};
use crate::given::{integer, present};
use crate::metatags::TagType;
use crate::retrieval::glob::Glob;
use crate::retrieval::request::MAX_CONTAINS;

/// The most tests that a tree may have.
pub const MAX_TESTS: usize = 64;
/// The deepest that a tree may be; a single test is one deep.
pub const MAX_DEPTH: usize = 8;
/// The most values that `in` may name.
pub const MAX_IN: usize = 1000;

/// A node of the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Filter {
    /// All of them hold; without any, it holds.
    All(Vec<Filter>),
    /// One of them holds; without any, none does.
    Any(Vec<Filter>),
    /// It does not hold.
    Not(Box<Filter>),
    /// A metatag passes every test; without any, it is set.
    Tag(String, Vec<Test>),
    /// The name matches.
    Name(Glob),
    /// The time of the source's last modification compares so.
    Modified(Order, DateTime<Utc>),
    /// The bytes of the contents compare so.
    Size(Order, i64),
}

/// A test of a metatag's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Test {
    /// It is this scalar.
    Eq(Value),
    /// It is of this scalar's type, and another.
    Ne(Value),
    /// It is one of these scalars.
    In(Vec<Value>),
    /// A string, or an element of a string[], contains the text.
    Contains(String),
    /// A string, or an element of a string[], starts with the text.
    StartsWith(String),
    /// A number, or a string by code point, compares so.
    Compare(Order, Value),
    /// An element of a string[] is the text.
    Has(String),
    /// An object (or an array that is none of strings) contains this JSON.
    Matches(Value),
}

/// How two values compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Greater.
    Gt,
    /// Greater or equal.
    Gte,
    /// Less.
    Lt,
    /// Less or equal.
    Lte,
}

impl Order {
    /// The operator of SQL.
    pub fn sql(self) -> &'static str {
        match self {
            Order::Gt => ">",
            Order::Gte => ">=",
            Order::Lt => "<",
            Order::Lte => "<=",
        }
    }

    fn named(name: &str) -> Option<Order> {
        Some(match name {
            "gt" => Order::Gt,
            "gte" => Order::Gte,
            "lt" => Order::Lt,
            "lte" => Order::Lte,
            _ => return None,
        })
    }
}

/// Parses a tree; `at` is its pointer.
///
/// # Errors
/// Every wrong member by pointer; a tree that is too large or too deep as a whole.
pub fn parse(value: &Value, at: &str) -> Result<Filter, Vec<FieldError>> {
    let mut parser = Parser { errors: Vec::new(), tests: 0 };
    let filter = parser.node(value, at, 1);
    if parser.tests > MAX_TESTS {
        parser.errors.push(FieldError::new(at, format!("has more than {MAX_TESTS} tests")));
    }
    match filter {
        Some(filter) if parser.errors.is_empty() => Ok(filter),
        _ => Err(parser.errors),
    }
}

struct Parser {
    errors: Vec<FieldError>,
    tests: usize,
}

impl Parser {
    fn wrong<T>(&mut self, at: impl Into<String>, detail: impl Into<String>) -> Option<T> {
        self.errors.push(FieldError::new(at, detail));
        None
    }

    fn node(&mut self, value: &Value, at: &str, depth: usize) -> Option<Filter> {
        if depth > MAX_DEPTH {
            return self.wrong(at, format!("is deeper than {MAX_DEPTH}"));
        }
        let Some(members) = value.as_object() else { return self.wrong(at, "must be an object") };
        if let Some(Value::String(name)) = members.get("tag") {
            return self.tag(name, members, at);
        }
        let mut all = present(members);
        let (Some((kind, value)), None) = (all.next(), all.next()) else {
            return self
                .wrong(at, "must be one of `all`, `any`, `not`, `tag`, `name`, `modified` and `size`");
        };
        let at = &pointer(at, kind);
        match kind.as_str() {
            "all" => self.nodes(value, at, depth).map(Filter::All),
            "any" => self.nodes(value, at, depth).map(Filter::Any),
            "not" => self.node(value, at, depth + 1).map(|node| Filter::Not(Box::new(node))),
            "tag" => self.wrong(at, "must be the name of a metatag"),
            "name" => self.each(value, at, |parser, test, value, at| match (test, value.as_str()) {
                ("glob", Some(pattern)) => match Glob::parse(pattern) {
                    Ok(glob) => Some(Filter::Name(glob)),
                    Err(error) => parser.wrong(at, error.to_string()),
                },
                ("glob", None) => parser.wrong(at, "must be a string"),
                _ => parser.wrong(at, "is no test of a name: there is `glob`"),
            }),
            "modified" => self.each(value, at, |parser, test, value, at| {
                let order = match test {
                    "since" => Order::Gte,
                    "before" => Order::Lt,
                    _ => return parser.wrong(at, "is no test of a time: there are `since` and `before`"),
                };
                match value.as_str().and_then(|text| DateTime::parse_from_rfc3339(text).ok()) {
                    Some(time) => Some(Filter::Modified(order, time.to_utc())),
                    None => parser.wrong(at, "must be a time such as 2026-01-01T00:00:00Z"),
                }
            }),
            "size" => {
                self.each(value, at, |parser, test, value, at| match (Order::named(test), integer(value)) {
                    (Some(order), Some(bytes)) => Some(Filter::Size(order, bytes)),
                    (Some(_), None) => parser.wrong(at, "must be a whole number of bytes"),
                    (None, _) => {
                        parser.wrong(at, "is no test of a size: there are `gt`, `gte`, `lt` and `lte`")
                    }
                })
            }
            _ => self.wrong(at, "must be one of `all`, `any`, `not`, `tag`, `name`, `modified` and `size`"),
        }
    }

    fn nodes(&mut self, value: &Value, at: &str, depth: usize) -> Option<Vec<Filter>> {
        let Some(nodes) = value.as_array() else { return self.wrong(at, "must be an array of filters") };
        // One that is wrong does not keep the others from being looked at.
        let parsed: Vec<Option<Filter>> = nodes
            .iter()
            .take(MAX_TESTS + 1)
            .enumerate()
            .map(|(i, node)| self.node(node, &pointer(at, i), depth + 1))
            .collect();
        if nodes.len() > MAX_TESTS {
            return self.wrong(at, format!("has more than {MAX_TESTS} filters"));
        }
        parsed.into_iter().collect()
    }

    /// The tests of something that is no metatag, all of which must hold.
    fn each(
        &mut self,
        value: &Value,
        at: &str,
        mut test: impl FnMut(&mut Parser, &str, &Value, &str) -> Option<Filter>,
    ) -> Option<Filter> {
        let Some(members) = value.as_object().filter(|members| present(members).next().is_some()) else {
            return self.wrong(at, "must be an object with at least one test");
        };
        let tests: Vec<Option<Filter>> =
            present(members).map(|(name, value)| test(self, name, value, &pointer(at, name))).collect();
        self.tests += tests.len();
        let mut tests = tests.into_iter().collect::<Option<Vec<Filter>>>()?;
        if tests.len() == 1 { tests.pop() } else { Some(Filter::All(tests)) }
    }

    fn tag(&mut self, name: &str, members: &Map<String, Value>, at: &str) -> Option<Filter> {
        if name.contains('\0') {
            return self.wrong(pointer(at, "tag"), "holds U+0000, which no metatag can hold");
        }
        let mut given = present(members).filter(|(member, _)| *member != "tag").peekable();
        let compared = ["eq", "ne"].into_iter().find(|test| members.contains_key(*test));
        if let (None, Some(test)) = (given.peek(), compared) {
            return self.wrong(
                pointer(at, test),
                "no metatag is null; leave the test out to find the files that have the metatag",
            );
        }
        let tests: Vec<Option<Test>> =
            given.map(|(test, value)| self.test(test, value, &pointer(at, test))).collect();
        self.tests += tests.len().max(1);
        Some(Filter::Tag(name.to_owned(), tests.into_iter().collect::<Option<_>>()?))
    }

    fn test(&mut self, test: &str, value: &Value, at: &str) -> Option<Test> {
        if let Some(order) = Order::named(test) {
            return match value {
                Value::Number(_) | Value::String(_) => {
                    self.storable(value, at).map(|value| Test::Compare(order, value))
                }
                _ => self.wrong(at, "must be a number or a string"),
            };
        }
        match test {
            "eq" => self.scalar(value, at).map(Test::Eq),
            "ne" => self.scalar(value, at).map(Test::Ne),
            "in" => {
                let Some(values) = value.as_array() else { return self.wrong(at, "must be an array") };
                if values.len() > MAX_IN {
                    return self.wrong(at, format!("has more than {MAX_IN} values"));
                }
                let values = values.iter().enumerate().map(|(i, value)| self.scalar(value, &pointer(at, i)));
                values.collect::<Option<_>>().map(Test::In)
            }
            "contains" => self.text(value, at).map(Test::Contains),
            "starts_with" => self.text(value, at).map(Test::StartsWith),
            "has" => self.text(value, at).map(Test::Has),
            "matches" if TagType::of(value) == Some(TagType::Object) || value.is_array() => {
                self.storable(value, at).map(Test::Matches)
            }
            "matches" => self.wrong(at, "must be an object or an array"),
            _ => self.wrong(
                at,
                "is no test: there are eq, ne, in, contains, starts_with, gt, gte, lt, lte, has and matches",
            ),
        }
    }

    fn scalar(&mut self, value: &Value, at: &str) -> Option<Value> {
        match value {
            Value::Bool(_) | Value::Number(_) | Value::String(_) => self.storable(value, at),
            _ => self.wrong(at, "must be a string, a number or a boolean"),
        }
    }

    fn text(&mut self, value: &Value, at: &str) -> Option<String> {
        match self.storable(value, at)? {
            Value::String(text) => Some(text),
            _ => self.wrong(at, "must be a string"),
        }
    }

    /// No stored value holds U+0000 or is longer than the longest.
    fn storable(&mut self, value: &Value, at: &str) -> Option<Value> {
        if crate::metatags::value::holds_nul(value) {
            return self.wrong(at, "holds U+0000, which no metatag can hold");
        }
        let size = value.as_str().map_or_else(|| value.to_string().len(), str::len);
        if size > MAX_CONTAINS {
            return self.wrong(at, format!("is longer than {MAX_CONTAINS} bytes, which no metatag is"));
        }
        Some(value.clone())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(value: Value) -> Vec<String> {
        parse(&value, "/w").unwrap_err().into_iter().map(|error| error.pointer).collect()
    }

    #[test]
    fn a_tree_is_read() {
        let tree = json!({"all": [{"tag": "c", "eq": "s"}, {"any": [{"tag": "p", "gte": 3, "lt": 9}]},
            {"not": {"tag": "a"}}, {"name": {"glob": "*.md"}}, {"modified": {"since": "2026-01-01T00:00:00Z"}},
            {"size": {"gt": 1}}]});
        let compare = |order, value| Test::Compare(order, value);
        let Filter::All(nodes) = parse(&tree, "").unwrap() else { unreachable!() };
        assert_eq!(nodes[0], Filter::Tag("c".into(), vec![Test::Eq(json!("s"))]));
        let both = vec![compare(Order::Gte, json!(3)), compare(Order::Lt, json!(9))];
        assert_eq!(nodes[1], Filter::Any(vec![Filter::Tag("p".into(), both)]));
        assert_eq!(nodes[2], Filter::Not(Box::new(Filter::Tag("a".into(), vec![]))));
        assert_eq!(nodes[3], Filter::Name(Glob::parse("*.md").unwrap()));
        assert!(matches!(nodes[4], Filter::Modified(Order::Gte, _)));
        assert_eq!(nodes[5], Filter::Size(Order::Gt, 1));
        assert_eq!(parse(&json!({"all": []}), "").unwrap(), Filter::All(vec![]));
    }

    #[test]
    fn null_is_absent() {
        let tree = json!({"all": [
            {"all": null, "any": null, "not": null, "name": null, "tag": "p", "gte": 3, "eq": null, "in": null},
            {"tag": "q", "contains": null, "has": null}, {"tag": null, "size": {"gt": 5.0, "lt": null}}],
            "any": null, "tag": null});
        let Filter::All(nodes) = parse(&tree, "").unwrap() else { unreachable!() };
        assert_eq!(nodes[0], Filter::Tag("p".into(), vec![Test::Compare(Order::Gte, json!(3))]));
        assert_eq!(nodes[1..], [Filter::Tag("q".into(), vec![]), Filter::Size(Order::Gt, 5)]);
    }

    #[test]
    fn what_is_wrong_is_named_and_all_of_it() {
        for (tree, pointers) in [
            (json!([]), vec!["/w"]),
            (json!({}), vec!["/w"]),
            (json!({"all": [], "any": []}), vec!["/w"]),
            (json!({"every": []}), vec!["/w/every"]),
            (json!({"tag": 3}), vec!["/w/tag"]),
            (json!({"tag": "c", "eqq": 1}), vec!["/w/eqq"]),
            (json!({"tag": "c\u{0}"}), vec!["/w/tag"]),
            (
                json!({"all": [{"tag": "p", "gt": [1]}, {"tag": "q", "eq": null}]}),
                vec!["/w/all/0/gt", "/w/all/1/eq"],
            ),
            (json!({"tag": "c", "in": ["a", {}]}), vec!["/w/in/1"]),
            (json!({"tag": "c", "in": [null]}), vec!["/w/in/0"]),
            (json!({"tag": "c", "ne": null, "gt": null}), vec!["/w/ne"]),
            (json!({"size": {"gt": null}}), vec!["/w/size"]),
            (json!({"tag": null, "all": null}), vec!["/w"]),
            (json!({"tag": "c", "matches": "x"}), vec!["/w/matches"]),
            (json!({"tag": "c", "contains": 1}), vec!["/w/contains"]),
            (json!({"name": {"glob": "["}}), vec!["/w/name/glob"]),
            (json!({"name": {}}), vec!["/w/name"]),
            (
                json!({"modified": {"since": "yesterday", "after": 1}}),
                vec!["/w/modified/since", "/w/modified/after"],
            ),
            (json!({"size": {"gt": 1.5}}), vec!["/w/size/gt"]),
            (json!({"not": {"not": {"nope": 1}}}), vec!["/w/not/not/nope"]),
        ] {
            assert_eq!(at(tree.clone()), pointers, "{tree}");
        }
    }

    #[test]
    fn trees_are_bounded() {
        let nested = |depth| (1..depth).fold(json!({"tag": "c"}), |inner, _| json!({"not": inner}));
        assert!(parse(&nested(MAX_DEPTH), "").is_ok());
        assert_eq!(at(nested(MAX_DEPTH + 1)).len(), 1);
        let wide = |width| json!({"any": vec![json!({"tag": "c"}); width]});
        assert!(parse(&wide(MAX_TESTS), "").is_ok());
        assert!(!at(wide(MAX_TESTS + 1)).is_empty());
        let two = json!({"all": [wide(40), wide(40)]});
        assert_eq!(at(two), ["/w"]);
    }
}
