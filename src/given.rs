//! What a caller gave, read by two rules (REST contract, "Names that later work uses"): a member that is null is as if it
//! were not there, wherever it may be left out, and an integer may be written `5.0`.
//!
//! Types are read by [`Given`], a deserializer over a JSON value. A null is offered to the member's type first, since a null
//! is a value where any JSON is taken, and where it says to take something away. A type that does not take it has the member
//! [left out](LeftOut), in another reading of the same value. What reads members one by one uses [`present`], [`member`],
//! [`integer`] and [`unsigned`].

use std::cell::RefCell;
use std::fmt;

use serde::Deserializer;
use serde::de::value::StringDeserializer;
use serde::de::{
    DeserializeSeed, Error, Expected, IntoDeserializer, MapAccess, SeqAccess, Unexpected, Visitor,
};
use serde_json::{Map, Number, Value};

/// The members of an object that are there: all but the nulls.
pub fn present(members: &Map<String, Value>) -> impl Iterator<Item = (&String, &Value)> {
    members.iter().filter(|(_, value)| !value.is_null())
}

/// A member of an object that is there, and no null.
pub fn member<'a>(members: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    members.get(name).filter(|value| !value.is_null())
}

/// The same value without the members that are null, at any depth; elements of arrays stay.
pub fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            present(members).map(|(name, value)| (name.clone(), without_nulls(value))).collect()
        }
        Value::Array(elements) => elements.iter().map(without_nulls).collect(),
        other => other.clone(),
    }
}

/// An integer, however it is written.
pub fn integer(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| whole(value.as_number()?))
}

/// An integer from 0, however it is written.
pub fn unsigned(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| u64::try_from(whole(value.as_number()?)?).ok())
}

/// The integer that a number is which is written with a fraction of zero, or an exponent. Beyond 2⁵³ a double stands for
/// several integers, and so for none.
fn whole(number: &Number) -> Option<i64> {
    let value = number.as_f64().filter(|_| number.is_f64())?;
    (value.fract() == 0.0 && value.abs() <= (1u64 << 53) as f64).then_some(value as i64)
}

/// Members that a reading leaves out where they are null.
#[derive(Debug, Default)]
pub struct LeftOut(RefCell<Vec<(&'static str, String)>>);

impl LeftOut {
    /// Has the next reading leave out this member of structures of this name. False where it did so already.
    pub fn add(&self, of: &'static str, member: &str) -> bool {
        let new = !self.has(of, member);
        if new {
            self.0.borrow_mut().push((of, member.to_owned()));
        }
        new
    }

    fn has(&self, of: &str, member: &str) -> bool {
        self.0.borrow().iter().any(|(name, known)| (*name, known.as_str()) == (of, member))
    }
}

/// Why a value does not fit a type.
#[derive(Debug)]
pub enum Misfit {
    /// A member is null, and its type takes none.
    Null {
        /// The structure; none where it is a map, whose members are not declared.
        of: Option<&'static str>,
        /// Its member.
        member: String,
    },
    /// A member is not there that may not be left out.
    Missing(&'static str),
    /// Anything else, in words.
    Other(String),
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Misfit::Null { .. } => f.write_str("must not be null"),
            Misfit::Missing(name) => write!(f, "missing field `{name}`"),
            Misfit::Other(detail) => f.write_str(detail),
        }
    }
}

impl std::error::Error for Misfit {}

impl Error for Misfit {
    fn custom<T: fmt::Display>(detail: T) -> Misfit {
        Misfit::Other(detail.to_string())
    }

    fn missing_field(field: &'static str) -> Misfit {
        Misfit::Missing(field)
    }

    fn invalid_type(unexpected: Unexpected<'_>, expected: &dyn Expected) -> Misfit {
        match unexpected {
            Unexpected::Unit => Misfit::Other(format!("invalid type: null, expected {expected}")),
            other => Misfit::Other(format!("invalid type: {other}, expected {expected}")),
        }
    }
}

/// A value, to be read into a type.
#[derive(Debug)]
pub struct Given<'a> {
    /// The value.
    pub value: Value,
    /// What is left out of it where it is null.
    pub left_out: &'a LeftOut,
}

impl Given<'_> {
    fn object<'de, V: Visitor<'de>>(
        self,
        of: Option<(&'static str, &'static [&'static str])>,
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        let Value::Object(members) = self.value else {
            return Err(Error::invalid_type(unexpected(&self.value), &visitor));
        };
        let members = members.into_iter();
        visitor.visit_map(Members { members, of, left_out: self.left_out, next: None })
    }
}

fn unexpected(value: &Value) -> Unexpected<'_> {
    match value {
        Value::Null => Unexpected::Unit,
        Value::Bool(flag) => Unexpected::Bool(*flag),
        Value::Number(number) => match (number.as_u64(), number.as_i64(), number.as_f64()) {
            (Some(number), ..) => Unexpected::Unsigned(number),
            (_, Some(number), _) => Unexpected::Signed(number),
            (.., number) => Unexpected::Float(number.unwrap_or_default()),
        },
        Value::String(text) => Unexpected::Str(text),
        Value::Array(_) => Unexpected::Seq,
        Value::Object(_) => Unexpected::Map,
    }
}

macro_rules! integers {
    ($($method:ident)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
            match self.value.as_number().and_then(whole) {
                Some(number) => visitor.visit_i64(number),
                None => self.deserialize_any(visitor),
            }
        })*
    };
}

impl<'de> Deserializer<'de> for Given<'_> {
    type Error = Misfit;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        match self.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(flag) => visitor.visit_bool(flag),
            Value::Number(number) => match (number.as_u64(), number.as_i64(), number.as_f64()) {
                (Some(number), ..) => visitor.visit_u64(number),
                (_, Some(number), _) => visitor.visit_i64(number),
                (.., Some(number)) => visitor.visit_f64(number),
                _ => Err(Misfit::Other("the number does not fit a double".into())),
            },
            Value::String(text) => visitor.visit_string(text),
            Value::Array(elements) => {
                let mut elements = Elements { elements: elements.into_iter(), left_out: self.left_out };
                let read = visitor.visit_seq(&mut elements)?;
                match elements.elements.len() {
                    0 => Ok(read),
                    _ => Err(Misfit::Other("has more elements than are taken".into())),
                }
            }
            Value::Object(_) => self.object(None, visitor),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        self.object(Some((name, fields)), visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        self.object(None, visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        match self.value {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        let read = self.value.deserialize_enum(name, variants, visitor);
        read.map_err(|error| Misfit::Other(error.to_string()))
    }

    /// The tag of a union is its variant's name. Serde would take the variant's number as well, which nobody means.
    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        match self.value {
            Value::String(name) => visitor.visit_string(name),
            _ => Err(Misfit::Other("must be a text".into())),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        visitor.visit_unit()
    }

    integers! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64
    }

    serde::forward_to_deserialize_any! {
        bool i128 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple tuple_struct
    }
}

impl<'de> IntoDeserializer<'de, Misfit> for Given<'_> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

struct Elements<'a> {
    elements: std::vec::IntoIter<Value>,
    left_out: &'a LeftOut,
}

impl<'de> SeqAccess<'de> for &mut Elements<'_> {
    type Error = Misfit;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Misfit> {
        let Some(value) = self.elements.next() else { return Ok(None) };
        seed.deserialize(Given { value, left_out: self.left_out }).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.elements.len())
    }
}

struct Members<'a> {
    members: serde_json::map::IntoIter,
    /// The name and the members of the structure; none of a map.
    of: Option<(&'static str, &'static [&'static str])>,
    left_out: &'a LeftOut,
    next: Option<(String, Value)>,
}

impl<'de> MapAccess<'de> for Members<'_> {
    type Error = Misfit;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Misfit> {
        let (of, left_out) = (self.of, self.left_out);
        let taken = |(name, value): &(String, Value)| {
            !value.is_null() || of.is_none_or(|(of, _)| !left_out.has(of, name))
        };
        let Some((name, value)) = self.members.find(taken) else { return Ok(None) };
        let key: StringDeserializer<Misfit> = name.clone().into_deserializer();
        self.next = Some((name, value));
        seed.deserialize(key).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Misfit> {
        let Some((member, value)) = self.next.take() else {
            return Err(Misfit::Other("a value without a name".into()));
        };
        let null = value.is_null();
        seed.deserialize(Given { value, left_out: self.left_out }).map_err(|error| match null {
            true => Misfit::Null { of: self.of.map(|(name, _)| name), member },
            false => error,
        })
    }

    fn size_hint(&self) -> Option<usize> {
        None
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn integers_are_those_that_json_schema_counts() {
        for (value, expected) in [
            (json!(5), Some(5)),
            (json!(5.0), Some(5)),
            (json!(-0.0), Some(0)),
            (json!(5e3), Some(5000)),
            (json!(-7.0), Some(-7)),
            (json!(5.5), None),
            (json!(9007199254740992.0), Some(1 << 53)),
            (json!(1e300), None),
            (json!("5"), None),
            (json!(null), None),
        ] {
            assert_eq!(integer(&value), expected, "{value}");
            assert_eq!(unsigned(&value), expected.and_then(|n| u64::try_from(n).ok()), "{value}");
        }
        assert_eq!(unsigned(&json!(u64::MAX)), Some(u64::MAX));
    }

    #[test]
    fn nulls_go_at_any_depth_and_elements_stay() {
        let value = json!({"a": null, "b": {"c": null, "d": [null, {"e": null, "f": 0}]}});
        assert_eq!(without_nulls(&value), json!({"b": {"d": [null, {"f": 0}]}}));
    }
}
