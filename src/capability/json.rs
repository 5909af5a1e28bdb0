//! Reads JSON (RFC 8259) into values, without losing any of it in silence: a name twice in an object, and an integer that
//! 64 bits do not hold, are errors; and there is a limit to how many values there may be, since each takes far more memory
//! than its text.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// The most values that a document may hold.
pub const MAX_VALUES: usize = 1_000_000;

/// What an error says of a document with more of them.
pub const TOO_MANY: &str = "it holds more than 1000000 values";

/// The value that a text is.
///
/// # Errors
/// A sentence that tells what is wrong, and where.
pub fn parse(text: &str) -> Result<Value, String> {
    let mut left = MAX_VALUES;
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = Counted { left: &mut left }.deserialize(&mut deserializer);
    let value = value.map_err(|error| error.to_string())?;
    deserializer.end().map_err(|error| error.to_string())?;
    // Only a text with so many digits in a row can hold an integer that was rounded to a double.
    let long = text.as_bytes().split(|b| !b.is_ascii_digit()).any(|digits| digits.len() > 18);
    match !long || exact(&value) {
        true => Ok(value),
        false => Err("it holds an integer of more than 64 bits".into()),
    }
}

fn exact(value: &Value) -> bool {
    match value {
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() => float.fract() != 0.0 || float.abs() < 2f64.powi(63),
            _ => true,
        },
        Value::Array(elements) => elements.iter().all(exact),
        Value::Object(members) => members.values().all(exact),
        _ => true,
    }
}

struct Counted<'a> {
    left: &'a mut usize,
}

impl<'de> DeserializeSeed<'de> for Counted<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        *self.left = self.left.checked_sub(1).ok_or_else(|| D::Error::custom(TOO_MANY))?;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Counted<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("a number is out of range"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Value, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = sequence.next_element_seed(Counted { left: self.left })? {
            elements.push(element);
        }
        Ok(Value::Array(elements))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some(name) = map.next_key::<String>()? {
            if members.contains_key(&name) {
                let name: String = name.chars().take(100).collect();
                return Err(A::Error::custom(format_args!("the name {name:?} is twice in an object")));
            }
            let value = map.next_value_seed(Counted { left: self.left })?;
            members.insert(name, value);
        }
        Ok(Value::Object(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_of_the_library() {
        for text in [
            "null",
            " [1, -2, 3.5e3, 18446744073709551615, \"a\\u00e9\\n\", {\"b\": {}, \"a\": []}, true] ",
            "{\"n\": 0.1234567890123456789, \"\": \"\"}",
        ] {
            let expected: Value = serde_json::from_str(text).unwrap();
            assert_eq!(parse(text).unwrap().to_string(), expected.to_string());
        }
    }

    #[test]
    fn nothing_is_lost_in_silence() {
        for (text, detail) in [
            ("{\"a\": 1, \"a\": 2}", "twice"),
            ("[{\"n\": 123456789012345678901234567890}]", "64 bits"),
            ("[1] 2", "trailing"),
            ("{\"a\":", "EOF"),
            ("1e999", "out of range"),
            ("", "EOF"),
        ] {
            assert!(parse(text).unwrap_err().contains(detail), "{text}: {:?}", parse(text));
        }
        assert!(parse(&"[".repeat(10_000)).is_err());
    }

    #[test]
    fn there_are_only_so_many() {
        let text = |count: usize| format!("[{}0]", "0,".repeat(count - 2));
        assert!(parse(&text(MAX_VALUES)).is_ok());
        assert!(parse(&text(MAX_VALUES + 1)).unwrap_err().contains(TOO_MANY));
    }
}
