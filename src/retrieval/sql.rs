//! A statement in the making: its text, and the values of its parameters.

use chrono::{DateTime, Utc};

/// The value of a parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bind {
    /// `bigint`.
    Int(i64),
    /// `text`.
    Text(String),
    /// `bigint[]`.
    Ints(Vec<i64>),
    /// `text[]`.
    Texts(Vec<String>),
    /// `bytea[]`.
    Bytes(Vec<Vec<u8>>),
    /// `timestamptz`.
    Time(DateTime<Utc>),
}

impl From<DateTime<Utc>> for Bind {
    fn from(value: DateTime<Utc>) -> Bind {
        Bind::Time(value)
    }
}

impl From<Vec<Vec<u8>>> for Bind {
    fn from(value: Vec<Vec<u8>>) -> Bind {
        Bind::Bytes(value)
    }
}

impl From<i64> for Bind {
    fn from(value: i64) -> Bind {
        Bind::Int(value)
    }
}

impl From<&str> for Bind {
    fn from(value: &str) -> Bind {
        Bind::Text(value.to_owned())
    }
}

impl From<String> for Bind {
    fn from(value: String) -> Bind {
        Bind::Text(value)
    }
}

impl From<&[i64]> for Bind {
    fn from(value: &[i64]) -> Bind {
        Bind::Ints(value.to_vec())
    }
}

impl From<Vec<i64>> for Bind {
    fn from(value: Vec<i64>) -> Bind {
        Bind::Ints(value)
    }
}

impl From<Vec<String>> for Bind {
    fn from(value: Vec<String>) -> Bind {
        Bind::Texts(value)
    }
}

/// A statement. Its first parameter, `$1`, is the tenant's number, which every statement names so that a distributed
/// database can send it to one shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sql {
    /// The text.
    pub text: String,
    /// The values of `$1`, `$2`, …
    pub binds: Vec<Bind>,
}

impl Sql {
    /// An empty statement of the tenant.
    pub fn new(tenant: i64) -> Sql {
        Sql { text: String::new(), binds: vec![Bind::Int(tenant)] }
    }

    /// Appends text.
    pub fn push(&mut self, text: &str) -> &mut Sql {
        self.text.push_str(text);
        self
    }

    /// Appends a parameter that has this value.
    pub fn bind(&mut self, value: impl Into<Bind>) -> &mut Sql {
        self.binds.push(value.into());
        let number = self.binds.len();
        self.push("$").push(&number.to_string())
    }
}
