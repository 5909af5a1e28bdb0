//! `If-Match` and `If-None-Match` over strong entity tags (REST contract, "Writing safely"; RFC 9110 §13).

use crate::error::{Code, Error, Result};

/// One of the two headers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tags {
    /// `*`: whatever there is.
    Any,
    /// These, each with its quotes.
    These(Vec<String>),
}

impl Tags {
    /// Reads `*` or a list of entity tags; several headers are one list. A weak tag is kept, and matches no strong one.
    pub fn parse<'a>(values: impl Iterator<Item = &'a str>) -> Result<Option<Tags>> {
        let mut tags = Vec::new();
        let mut any = false;
        for mut rest in values.map(str::trim_ascii) {
            any |= rest == "*";
            while rest != "*" && !rest.is_empty() {
                let start = if rest.starts_with("W/") { 2 } else { 0 };
                let end = rest.get(start..).and_then(|quoted| quoted.strip_prefix('"')?.find('"'));
                let Some(end) = end.map(|end| start + end + 2) else {
                    return Err(Error::new(
                        Code::BadRequest,
                        "an entity tag must be quoted, as in If-Match: \"abc\"",
                    ));
                };
                let (tag, after) = rest.split_at(end);
                tags.push(tag.to_owned());
                rest = after.trim_ascii_start();
                rest = match rest.strip_prefix(',') {
                    Some(after) => after.trim_ascii_start(),
                    None if rest.is_empty() => rest,
                    None => return Err(Error::new(Code::BadRequest, "entity tags are separated by commas")),
                };
            }
        }
        Ok(if any {
            Some(Tags::Any)
        } else if tags.is_empty() {
            None
        } else {
            Some(Tags::These(tags))
        })
    }

    fn matches(&self, current: Option<&str>) -> bool {
        match (self, current) {
            (_, None) => false,
            (Tags::Any, Some(_)) => true,
            (Tags::These(tags), Some(current)) => tags.iter().any(|tag| tag == current),
        }
    }

    /// `If-None-Match` compares weakly: a proxy may have weakened the tag that it was given.
    fn matches_weakly(&self, current: Option<&str>) -> bool {
        match (self, current) {
            (Tags::These(tags), Some(current)) => {
                tags.iter().any(|tag| tag.strip_prefix("W/").unwrap_or(tag) == current)
            }
            _ => self.matches(current),
        }
    }
}

/// What a request demands of the thing that it is about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Preconditions {
    /// `If-Match`.
    pub if_match: Option<Tags>,
    /// `If-None-Match`.
    pub if_none_match: Option<Tags>,
}

impl Preconditions {
    /// Whether a write may go on; `current` is the thing's tag with its quotes, `None` where there is no such thing.
    ///
    /// # Errors
    /// [`Code::PreconditionFailed`].
    pub fn check_write(&self, current: Option<&str>) -> Result<()> {
        self.check_match(current)?;
        if self.if_none_match.as_ref().is_some_and(|tags| tags.matches_weakly(current)) {
            return Err(Error::new(Code::PreconditionFailed, "If-None-Match matches what is there"));
        }
        Ok(())
    }

    /// Whether a read of the thing with the tag `current` is to be answered 304.
    ///
    /// # Errors
    /// [`Code::PreconditionFailed`] from `If-Match`.
    pub fn not_modified(&self, current: &str) -> Result<bool> {
        self.check_match(Some(current))?;
        Ok(self.if_none_match.as_ref().is_some_and(|tags| tags.matches_weakly(Some(current))))
    }

    fn check_match(&self, current: Option<&str>) -> Result<()> {
        match &self.if_match {
            Some(tags) if !tags.matches(current) => {
                Err(Error::new(Code::PreconditionFailed, "If-Match does not match what is there"))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(text: &str) -> Option<Tags> {
        Tags::parse([text].into_iter()).unwrap()
    }

    #[test]
    fn lists_are_read() {
        assert_eq!(tags(" * "), Some(Tags::Any));
        assert_eq!(tags(""), None);
        let list = Some(Tags::These(vec!["\"a,b\"".into(), "W/\"c\"".into()]));
        assert_eq!(tags(" \"a,b\" , W/\"c\""), list);
        assert_eq!(Tags::parse(["\"a,b\"", "W/\"c\""].into_iter()).unwrap(), list);
        for bad in ["a", "\"a", "\"a\" \"b\"", "w/\"a\"", "W/"] {
            assert!(Tags::parse([bad].into_iter()).is_err(), "{bad}");
        }
    }

    macro_rules! writes {
        ($($name:ident: $if_match:expr, $if_none_match:expr, $current:expr => $ok:literal;)*) => {
            $(#[test] fn $name() {
                let conditions = Preconditions { if_match: tags($if_match), if_none_match: tags($if_none_match) };
                assert_eq!(conditions.check_write($current).is_ok(), $ok);
            })*
        };
    }

    writes! {
        nothing_is_demanded: "", "", None => true;
        the_same: "\"a\"", "", Some("\"a\"") => true;
        one_of_several: "\"b\", \"a\"", "", Some("\"a\"") => true;
        another: "\"b\"", "", Some("\"a\"") => false;
        a_weak_tag_is_not_strong: "W/\"a\"", "", Some("\"a\"") => false;
        any_and_there_is: "*", "", Some("\"a\"") => true;
        any_and_there_is_none: "*", "", None => false;
        none_and_there_is_none: "", "*", None => true;
        none_and_there_is: "", "*", Some("\"a\"") => false;
        not_this_one: "", "\"a\"", Some("\"a\"") => false;
        not_another_one: "", "\"b\"", Some("\"a\"") => true;
    }

    #[test]
    fn reads_are_not_modified() {
        let conditions = |text| Preconditions { if_match: None, if_none_match: tags(text) };
        assert!(conditions("\"b\", \"a\"").not_modified("\"a\"").unwrap());
        assert!(conditions("W/\"a\"").not_modified("\"a\"").unwrap());
        assert!(conditions("*").not_modified("\"a\"").unwrap());
        assert!(!conditions("\"b\"").not_modified("\"a\"").unwrap());
        assert!(!Preconditions::default().not_modified("\"a\"").unwrap());
    }
}
