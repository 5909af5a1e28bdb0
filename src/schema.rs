//! JSON Schemas that come from outside: `requestMatch`, constraints of a retrieve, what goes into and comes out of a tool.
//!
//! What such a schema may cost is bounded before it is used. It is small, it refers to nothing outside of itself, its
//! patterns are few and match in linear time, and the number of subschemas that testing one value can visit is limited:
//! definitions that refer to each other twice a level would otherwise take time exponential in their number. References
//! that run in circles are allowed; the validator remembers what it did.

use std::collections::{HashMap, HashSet};

use jsonschema::{PatternOptions, Validator};
use referencing::{Draft, Registry, Resolver, ResourceRef, Retrieve, Uri};
use serde_json::Value;

use crate::error::FieldError;
use crate::item::Mode;

/// The largest schema, in bytes of compact JSON.
pub const MAX_SCHEMA: usize = 64 * 1024;
/// The most regular expressions in a schema.
pub const MAX_PATTERNS: usize = 64;
/// The most subschemas that testing one value may visit, those behind references counted each time.
pub const MAX_VISITS: u64 = 4096;
/// The most work that testing one value may be: the values that it consists of, each times all that the schema may do
/// with one. What is larger is no request that anything could be given for.
pub const MAX_WORK: u64 = 20_000_000;
/// The most bytes of text that patterns may be tried on for one value, counted once for each pattern.
pub const MAX_SCANNED: u64 = 256 * 1024;
/// How many failures of a value are told.
pub const MAX_FAILURES: usize = 10;
/// The deepest nesting, references followed.
const MAX_DEPTH: usize = 256;
/// The most memory that one compiled regular expression may take, in bytes. Up to here matching stays with the fast engine
/// (20 ms for the worst pattern on [`MAX_SCANNED`]); at twice as much the slow one takes over, at 5 seconds.
const MAX_PATTERN_MEMORY: usize = 1 << 18;

/// A schema, ready for use.
#[derive(Debug)]
pub struct Schema {
    /// The retrieval modes that the schema declares under `properties`, in the order of [`Mode::ALL`].
    pub granted: Vec<Mode>,
    validator: Validator,
    /// What testing one value may take: subschemas visited, and values of the schema that it is compared with.
    weight: u64,
    patterns: u64,
}

impl Schema {
    /// Checks and compiles a schema: draft 2020-12, unless `$schema` says otherwise. The error's pointer starts with
    /// `base` and leads to the part of the schema at fault, as far as that is known.
    pub fn compile(schema: &Value, base: &str) -> Result<Schema, FieldError> {
        let refuse = |detail: String| FieldError::new(base, detail);
        if !schema.is_object() && !schema.is_boolean() {
            return Err(refuse("must be a JSON Schema".into()));
        }
        if schema.to_string().len() > MAX_SCHEMA {
            return Err(refuse(format!("must not be larger than {MAX_SCHEMA} bytes")));
        }
        let (granted, visits, patterns) = survey(schema).map_err(refuse)?;
        let validator = jsonschema::options()
            .with_retriever(Refuse)
            .with_pattern_options(PatternOptions::regex().size_limit(MAX_PATTERN_MEMORY))
            .build(schema)
            .map_err(|e| FieldError::new(format!("{base}{}", e.instance_path()), shortened(e.to_string())))?;
        Ok(Schema { granted, validator, weight: visits + Extent::of(schema).values, patterns })
    }

    /// Whether the value satisfies the schema. One that would take more than [`MAX_WORK`] or [`MAX_SCANNED`] does not.
    pub fn is_valid(&self, value: &Value) -> bool {
        self.can_test(value) && self.validator.is_valid(value)
    }

    fn can_test(&self, value: &Value) -> bool {
        let Extent { values, text } = Extent::of(value);
        values.saturating_mul(self.weight) <= MAX_WORK && text.saturating_mul(self.patterns) <= MAX_SCANNED
    }

    /// Why the value does not satisfy the schema, by pointers into the value, the first [`MAX_FAILURES`]; nothing where it
    /// does.
    pub fn failures(&self, value: &Value) -> Vec<FieldError> {
        if !self.can_test(value) {
            return vec![FieldError::new("", "is too large to be tested against this schema")];
        }
        let errors = self.validator.iter_errors(value).take(MAX_FAILURES);
        errors.map(|e| FieldError::new(e.instance_path().to_string(), shortened(e.to_string()))).collect()
    }
}

/// How large a value is.
#[derive(Default)]
struct Extent {
    /// Values and names of members.
    values: u64,
    /// Bytes of strings and names.
    text: u64,
}

impl Extent {
    fn of(value: &Value) -> Extent {
        let mut extent = Extent::default();
        extent.add(value);
        extent
    }

    // Values come from a parser that bounds their depth.
    fn add(&mut self, value: &Value) {
        self.values += 1;
        match value {
            Value::String(text) => self.text += text.len() as u64,
            Value::Array(elements) => elements.iter().for_each(|element| self.add(element)),
            Value::Object(members) => {
                for (name, member) in members {
                    self.values += 1;
                    self.text += name.len() as u64;
                    self.add(member);
                }
            }
            _ => {}
        }
    }
}

/// Fetches nothing: a schema must not make the service call out, nor read its disk.
struct Refuse;

impl Retrieve for Refuse {
    fn retrieve(&self, _: &Uri<String>) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        Err("a schema may refer only to itself".into())
    }
}

/// Follows every part of the schema that can be applied, and finds the granted modes, how many subschemas testing a value
/// can visit, and how many patterns there are.
fn survey(schema: &Value) -> Result<(Vec<Mode>, u64, u64), String> {
    let draft = Draft::default().detect(schema);
    let registry = (Registry::new().retriever(Refuse).draft(draft))
        .add("json-schema:///", ResourceRef::new(schema, draft))
        .and_then(|builder| builder.prepare())
        .map_err(|e| shortened(e.to_string()))?;
    let uri = referencing::uri::from_str("json-schema:///").map_err(|e| e.to_string())?;
    let root = registry.resolver(uri).lookup("#").map_err(|e| shortened(e.to_string()))?;
    let (contents, resolver, draft) = root.into_inner();
    let root = Node { contents, resolver, draft };

    let mut survey = Survey::default();
    let visits = survey.visits(&root, 0)?;
    let mut names = HashSet::new();
    grants(&root, &mut HashSet::new(), &mut names)?;
    let granted = Mode::ALL.iter().copied().filter(|mode| names.contains(mode)).collect();
    Ok((granted, visits, survey.patterns as u64))
}

struct Node<'r> {
    contents: &'r Value,
    resolver: Resolver<'r>,
    draft: Draft,
}

impl<'r> Node<'r> {
    fn child(&self, contents: &'r Value) -> Result<Node<'r>, String> {
        let draft = self.draft.detect(contents);
        let resolver = self.resolver.in_subresource(ResourceRef::new(contents, draft));
        Ok(Node { contents, resolver: resolver.map_err(|e| shortened(e.to_string()))?, draft })
    }

    fn referred(&self) -> Result<Option<Node<'r>>, String> {
        let Some(reference) = self.contents.get("$ref").and_then(Value::as_str) else { return Ok(None) };
        let target = self.resolver.lookup(reference).map_err(|e| shortened(e.to_string()))?;
        let (contents, resolver, draft) = target.into_inner();
        Ok(Some(Node { contents, resolver, draft }))
    }

    /// A schema is told by where it stands in memory.
    fn id(&self) -> *const Value {
        self.contents
    }
}

#[derive(Default)]
struct Survey {
    /// How many subschemas testing a value against this one can visit; none while that is being found out.
    visits: HashMap<*const Value, Option<u64>>,
    patterns: usize,
}

impl Survey {
    fn visits(&mut self, node: &Node<'_>, depth: usize) -> Result<u64, String> {
        match self.visits.get(&node.id()) {
            Some(Some(visits)) => return Ok(*visits),
            // A reference that runs in circles.
            Some(None) => return Ok(1),
            None => self.visits.insert(node.id(), None),
        };
        if depth > MAX_DEPTH {
            return Err(format!("must not be deeper than {MAX_DEPTH} levels, references followed"));
        }
        for keyword in ["$dynamicRef", "$recursiveRef"] {
            if node.contents.get(keyword).is_some() {
                return Err(format!("must not use `{keyword}`"));
            }
        }
        self.patterns += usize::from(node.contents.get("pattern").is_some());
        self.patterns +=
            node.contents.get("patternProperties").and_then(Value::as_object).map_or(0, |m| m.len());
        if self.patterns > MAX_PATTERNS {
            return Err(format!("must not have more than {MAX_PATTERNS} patterns"));
        }
        let definitions: HashSet<*const Value> = (["$defs", "definitions"].iter())
            .filter_map(|keyword| node.contents.get(keyword)?.as_object())
            .flat_map(|definitions| definitions.values().map(|value| value as *const Value))
            .collect();
        let mut visits = 1;
        for child in node.draft.subresources_of(node.contents) {
            // What is only defined here is visited where it is referred to.
            if !definitions.contains(&(child as *const Value)) {
                visits += self.visits(&node.child(child)?, depth + 1)?;
            }
        }
        if let Some(target) = node.referred()? {
            visits += self.visits(&target, depth + 1)?;
        }
        if visits > MAX_VISITS {
            return Err(format!("must not take more than {MAX_VISITS} subschemas to test a value"));
        }
        self.visits.insert(node.id(), Some(visits));
        Ok(visits)
    }
}

/// The modes named under `properties`, here and wherever the same value is tested.
fn grants(
    node: &Node<'_>,
    seen: &mut HashSet<*const Value>,
    granted: &mut HashSet<Mode>,
) -> Result<(), String> {
    if !seen.insert(node.id()) {
        return Ok(());
    }
    if let Some(Value::Object(properties)) = node.contents.get("properties") {
        granted.extend(properties.keys().filter_map(|name| Mode::from_name(name)));
    }
    for keyword in ["allOf", "anyOf", "oneOf"] {
        for child in node.contents.get(keyword).and_then(Value::as_array).into_iter().flatten() {
            grants(&node.child(child)?, seen, granted)?;
        }
    }
    node.referred()?.map_or(Ok(()), |target| grants(&target, seen, granted))
}

/// The libraries' messages repeat the value at fault, however large it is.
fn shortened(mut message: String) -> String {
    const MAX: usize = 300;
    if message.len() > MAX {
        message.truncate(message.floor_char_boundary(MAX));
        message.push('…');
    }
    message
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;

    fn compile(schema: Value) -> Result<Schema, FieldError> {
        Schema::compile(&schema, "/r")
    }

    macro_rules! granted {
        ($($name:ident: $schema:tt => [$($mode:ident),*];)*) => {
            $(#[test] fn $name() { assert_eq!(compile(json!($schema)).unwrap().granted, [$(Mode::$mode),*]); })*
        };
    }

    granted! {
        nowhere: {"properties": {"answer": {}}} => [];
        by_anything: true => [];
        at_the_top: {"type": "object", "properties": {"glob": {}, "files": false, "x": {}}} => [Files, Glob];
        through_applicators: {"allOf": [{"properties": {"glob": {}}}], "anyOf": [{"properties": {"files": {}}}, true],
            "oneOf": [{"allOf": [{"properties": {"metatag": {}}}]}]} => [Files, Metatag, Glob];
        not_where_another_value_is_tested: {"properties": {"files": {"properties": {"glob": {}}}},
            "not": {"properties": {"metatag": {}}}, "items": {"properties": {"subfolders": {}}}} => [Files];
        through_a_pointer: {"$ref": "#/$defs/a~1b%20c", "$defs": {"a/b c": {"properties": {"files": {}}}}} => [Files];
        through_an_anchor: {"$ref": "#req", "$defs": {"r": {"$anchor": "req", "properties": {"files": {}}}}} => [Files];
        through_an_embedded_id: {"$ref": "other#/$defs/x", "$id": "http://a.test/root", "$defs": {"x": {},
            "o": {"$id": "other", "$defs": {"x": {"properties": {"glob": {}}}}}}} => [Glob];
        in_circles: {"anyOf": [{"$ref": "#"}, {"$ref": "#/$defs/a"}],
            "$defs": {"a": {"properties": {"files": {}}, "allOf": [{"$ref": "#/$defs/a"}]}}} => [Files];
        of_an_older_draft: {"$schema": "http://json-schema.org/draft-07/schema#", "$ref": "#/definitions/a",
            "definitions": {"a": {"properties": {"files": {}}}}} => [Files];
    }

    macro_rules! refused {
        ($($name:ident: $schema:expr => $pointer:expr;)*) => {
            $(#[test] fn $name() {
                let error = compile($schema).unwrap_err();
                assert_eq!(error.pointer, $pointer, "{}", error.detail);
                assert!(error.detail.len() < 400);
            })*
        };
    }

    fn files(schema: Value) -> Value {
        json!({"properties": {"files": schema}})
    }

    /// Each definition refers `times` times to the one before.
    fn ladder(steps: usize, times: usize) -> Value {
        let mut definitions = Map::from_iter([("d0".to_owned(), json!({"required": ["x"]}))]);
        for i in 1..=steps {
            let reference = json!({"$ref": format!("#/$defs/d{}", i - 1)});
            definitions.insert(format!("d{i}"), json!({"anyOf": vec![reference; times]}));
        }
        json!({"$defs": definitions, "$ref": format!("#/$defs/d{steps}"), "properties": {"files": {}}})
    }

    refused! {
        no_schema: json!("object") => "/r";
        a_wrong_type: files(json!({"type": "objectt"})) => "/r/properties/files/type";
        a_reference_to_nothing: files(json!({"$ref": "#/$defs/x"})) => "/r";
        a_remote_reference: json!({"$ref": "http://127.0.0.1:9/schema.json"}) => "/r";
        a_file: json!({"$ref": "file:///etc/passwd"}) => "/r";
        an_unknown_dialect: json!({"$schema": "http://127.0.0.1:9/s.json", "properties": {"files": {}}}) => "/r";
        a_pattern_that_looks_back: files(json!({"pattern": "(?<=a)b"})) => "/r/properties/files/pattern";
        a_huge_pattern: files(json!({"pattern": "(a{1000}){1000}"})) => "/r/properties/files/pattern";
        many_patterns: json!({"properties": {"files": {}}, "patternProperties":
            (0..65).map(|i| (format!("^x{i}$"), json!({}))).collect::<Map<_, _>>()}) => "/r";
        a_dynamic_reference: files(json!({"$dynamicRef": "#x"})) => "/r";
        too_large: files(json!({"const": "x".repeat(MAX_SCHEMA)})) => "/r";
        exponential: ladder(40, 2) => "/r";
        too_deep: ladder(200, 1) => "/r";
        a_huge_wrong_value: files(json!({"type": "x".repeat(10_000)})) => "/r/properties/files/type";
    }

    #[test]
    fn references_within_reason_are_fine() {
        for schema in [ladder(8, 2), ladder(100, 1)] {
            let compiled = compile(schema).unwrap();
            assert!(compiled.is_valid(&json!({"x": 1})));
            assert!(!compiled.is_valid(&json!({})));
        }
    }

    #[test]
    fn what_takes_too_much_to_test_does_not_match() {
        let schema = compile(files(json!({"items": {"enum": vec!["x"; 10_000]}}))).unwrap();
        assert!(schema.is_valid(&json!({"files": vec!["x"; 1000]})));
        assert!(!schema.is_valid(&json!({"files": vec!["x"; 3000]})));
        let schema = compile(files(json!({"items": {"pattern": "^(a|b)*a(a|b){500}$"}}))).unwrap();
        let text = |length: usize| json!({"files": ["a".repeat(length)]});
        assert!(schema.is_valid(&text(1000)));
        assert!(!schema.is_valid(&text(300_000)));
        let lax = compile(json!({"properties": {"files": {}}})).unwrap();
        assert!(lax.is_valid(&text(1 << 20)) && lax.is_valid(&json!({"files": vec![0; 500_000]})));
    }

    #[test]
    fn failures_point_into_the_value() {
        let schema = compile(files(json!({"items": {"type": "string"}}))).unwrap();
        let pointers: Vec<_> =
            schema.failures(&json!({"files": ["a", 1, {}]})).into_iter().map(|e| e.pointer).collect();
        assert_eq!(pointers, ["/files/1", "/files/2"]);
        assert_eq!(schema.failures(&json!({"files": vec![0; 100]})).len(), MAX_FAILURES);
        assert_eq!(schema.failures(&json!({"files": []})), []);
    }

    #[test]
    fn recursion_over_a_deep_value_ends() {
        let schema = json!({"properties": {"files": {}}, "anyOf": [{"type": "integer"},
            {"type": "object", "properties": {"a": {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}}}]});
        let deep = (0..60).fold(json!("no integer"), |value, _| json!({"a": value}));
        assert!(!compile(schema).unwrap().is_valid(&deep));
    }
}
