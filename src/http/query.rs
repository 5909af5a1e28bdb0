//! Query strings: what is wrong with a parameter is 422, by its name.

use std::collections::HashSet;
use std::future::{Ready, ready};

use actix_web::dev::Payload;
use actix_web::{FromRequest, HttpRequest};
use serde::de::DeserializeOwned;

use crate::error::{Error, Result, pointer};

/// The query string as a type, which should `deny_unknown_fields` and derive `IntoParams`.
pub struct Query<T>(pub T);

impl<T: DeserializeOwned> FromRequest for Query<T> {
    type Error = Error;
    type Future = Ready<Result<Self>>;

    fn from_request(req: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(parse(req.query_string()).map(Query))
    }
}

fn parse<T: DeserializeOwned>(text: &str) -> Result<T> {
    let pairs = url::form_urlencoded::parse(text.as_bytes());
    let mut names = HashSet::new();
    if let Some((name, _)) = pairs.clone().find(|(name, _)| !names.insert(name.clone())) {
        return Err(Error::invalid_at(
            pointer("", name),
            "in the query string: the parameter is there twice",
        ));
    }
    serde_path_to_error::deserialize(serde_urlencoded::Deserializer::new(pairs)).map_err(|error| {
        let at = match error.path().iter().next() {
            Some(serde_path_to_error::Segment::Map { key }) => pointer("", key),
            _ => String::new(),
        };
        Error::invalid_at(at, format!("in the query string: {}", error.inner()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Sample {
        limit: Option<u8>,
    }

    #[test]
    fn the_parameter_is_named() {
        assert_eq!(parse::<Sample>("limit=7").unwrap().limit, Some(7));
        assert_eq!(parse::<Sample>("").unwrap().limit, None);
        for (text, at) in [
            ("limit=x", "/limit"),
            ("limit=256", "/limit"),
            ("a%20b=1", "/a b"),
            ("limit=1&limit=2", "/limit"),
        ] {
            assert_eq!(parse::<Sample>(text).unwrap_err().errors[0].pointer, at, "{text}");
        }
    }
}
