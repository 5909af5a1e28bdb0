//! The terms of metatags: all that a value can be found by.
//!
//! | kind | term | stands for |
//! |---|---|---|
//! | `x` | | the metatag is set |
//! | `t` | a text | a string, or an element of a string[] |
//! | `e` | | it has at least one text element |
//! | `n` | | it is a number, boolean or object |
//! | `v` | canonical JSON | a number or boolean of that value |

use std::collections::{BTreeSet, HashMap};

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::value::{TagType, Tags};

/// The kind of a term, as the dictionary stores it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The metatag is set.
    Present,
    /// A text element.
    Text,
    /// At least one text element.
    Element,
    /// A number, boolean or object.
    NotText,
    /// A number's or boolean's value.
    Scalar,
}

impl Kind {
    /// The letter in the database.
    pub fn letter(self) -> &'static str {
        match self {
            Kind::Present => "x",
            Kind::Text => "t",
            Kind::Element => "e",
            Kind::NotText => "n",
            Kind::Scalar => "v",
        }
    }
}

/// One term of one metatag.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Term<'a> {
    /// The metatag's name.
    pub key: &'a str,
    /// What the term stands for.
    pub kind: Kind,
    /// The text of kinds `t` and `v`, else empty.
    pub text: std::borrow::Cow<'a, str>,
}

impl Term<'_> {
    /// The digest of the text, by which the dictionary knows it.
    pub fn digest(&self) -> Vec<u8> {
        digest(&self.text)
    }
}

/// The first 16 bytes of the SHA-256 of a term's text.
pub fn digest(text: &str) -> Vec<u8> {
    Sha256::digest(text.as_bytes())[..16].to_vec()
}

/// Every term of a file's metatags, once each, in order.
pub fn terms(tags: &Tags) -> BTreeSet<Term<'_>> {
    let mut found = BTreeSet::new();
    for (key, value) in tags.as_map() {
        let mut add = |kind, text| found.insert(Term { key, kind, text });
        add(Kind::Present, "".into());
        match TagType::of(value) {
            Some(TagType::String | TagType::StringArray) => {
                let elements = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
                for text in elements.iter().filter_map(Value::as_str) {
                    add(Kind::Element, "".into());
                    add(Kind::Text, text.into());
                }
            }
            Some(TagType::Number | TagType::Boolean) => {
                add(Kind::NotText, "".into());
                add(Kind::Scalar, canonical(value).into());
            }
            Some(TagType::Object) => {
                add(Kind::NotText, "".into());
            }
            None => {}
        }
    }
    found
}

/// The numbers of terms, as a file's row holds them: sorted. `numbers` has all of them.
pub fn sorted(terms: &BTreeSet<Term<'_>>, numbers: &HashMap<Term<'_>, i64>) -> Vec<i64> {
    let mut ids: Vec<i64> = terms.iter().map(|term| numbers[term]).collect();
    ids.sort_unstable();
    ids
}

/// The one text of a number or boolean: `1`, `1.0` and `1e0` are the same number.
pub fn canonical(scalar: &Value) -> String {
    match scalar.as_f64() {
        // Within 64 bits, of either sign, the database gives a whole double back as an integer.
        Some(double)
            if scalar.is_f64()
                && double.fract() == 0.0
                && (-2f64.powi(63)..2f64.powi(64)).contains(&double) =>
        {
            format!("{}", double as i128)
        }
        _ => scalar.to_string(),
    }
}

/// The advisory lock of a tenant's dictionary. Whoever is about to use terms shares it until the transaction ends, so that
/// none of them is dropped as unused meanwhile.
pub fn lock_key(tenant: i64) -> i64 {
    0x51a7_d000_0000_0000 ^ tenant
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn written(value: Value) -> Vec<String> {
        terms(&Tags::stored(json!({ "k": value })))
            .into_iter()
            .map(|t| format!("{}:{}", t.kind.letter(), t.text))
            .collect()
    }

    #[test]
    fn each_type_has_its_terms() {
        assert_eq!(written(json!("abc")), ["x:", "t:abc", "e:"]);
        assert_eq!(written(json!("")), ["x:", "t:", "e:"]);
        assert_eq!(written(json!(["b", "a", "b"])), ["x:", "t:a", "t:b", "e:"]);
        assert_eq!(written(json!([])), ["x:"]);
        assert_eq!(written(json!(3)), ["x:", "n:", "v:3"]);
        assert_eq!(written(json!(false)), ["x:", "n:", "v:false"]);
        assert_eq!(written(json!({"a": "b"})), ["x:", "n:"]);
        assert_eq!(written(json!(["a", 1])), ["x:", "n:"]);
    }

    #[test]
    fn a_number_has_one_canonical_text() {
        assert_eq!(canonical(&json!(3.0)), "3");
        assert_eq!(canonical(&json!(-0.0)), "0");
        assert_eq!(canonical(&json!(2.5)), "2.5");
        assert_eq!(canonical(&json!(1e19)), canonical(&json!(10_000_000_000_000_000_000u64)));
        let printed: Value = serde_json::from_str("100000000000000000000").unwrap();
        assert_eq!(canonical(&json!(1e20)), canonical(&printed));
        assert_eq!(canonical(&json!(u64::MAX)), "18446744073709551615");
    }
}
