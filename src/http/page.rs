//! Keyset-paged lists (REST contract, "Writing safely"): `limit`, `cursor` → `{items, next_cursor}`.
//!
//! A list's use case is asked for one item more than the page holds; [`Page::cut`] takes that one away and makes a
//! cursor of the last that stays. A list without further filters takes [`Query`](super::query::Query) of [`PageQuery`];
//! one with filters declares `limit: Option<Limit>` and `cursor: Option<String>` beside them.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use crate::error::{Error, Result};

/// How many items a page holds at most: 1 to 1000, by default 100.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(try_from = "u32")]
#[schema(value_type = u32, minimum = 1, maximum = 1000, default = 100, example = 100)]
pub struct Limit(u32);

impl Default for Limit {
    fn default() -> Limit {
        Limit(100)
    }
}

impl TryFrom<u32> for Limit {
    type Error = &'static str;

    fn try_from(limit: u32) -> Result<Limit, &'static str> {
        if (1..=1000).contains(&limit) { Ok(Limit(limit)) } else { Err("must be from 1 to 1000") }
    }
}

impl Limit {
    /// Items on the page.
    pub fn items(self) -> usize {
        self.0 as usize
    }

    /// Rows to ask the database for: one more, which tells whether there is a next page.
    pub fn rows(self) -> i64 {
        i64::from(self.0) + 1
    }
}

/// Which page of a list.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct PageQuery {
    /// Items on the page.
    #[serde(default)]
    #[param(value_type = Option<u32>, minimum = 1, maximum = 1000, default = 100)]
    pub limit: Limit,
    /// The `next_cursor` of the page before; it means nothing to anyone but the service.
    #[param(min_length = 1)]
    pub cursor: Option<String>,
}

/// One page of a list.
#[derive(Debug, Serialize, ToSchema)]
pub struct Page<T> {
    /// The items, in the list's order.
    pub items: Vec<T>,
    /// Gives the next page; null on the last one.
    pub next_cursor: Option<String>,
}

impl<T> Page<T> {
    /// The page of `rows`, which hold one more than `limit` where there is a next page. `key` is where the list goes on
    /// after an item.
    pub fn cut<K: Serialize>(mut rows: Vec<T>, limit: Limit, key: impl FnOnce(&T) -> K) -> Page<T> {
        let more = rows.len() > limit.items();
        rows.truncate(limit.items());
        let next_cursor = if more { rows.last().map(|last| seal(&key(last))) } else { None };
        Page { items: rows, next_cursor }
    }

    /// The same page of something else.
    pub fn map<U>(self, each: impl FnMut(T) -> U) -> Page<U> {
        Page { items: self.items.into_iter().map(each).collect(), next_cursor: self.next_cursor }
    }
}

/// A cursor that holds where a list goes on.
pub fn seal<K: Serialize>(key: &K) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(serde_json::to_vec(key).unwrap_or_default())
}

/// What a cursor holds.
///
/// # Errors
/// 422 for anything that is no cursor of this list.
pub fn open<K: DeserializeOwned>(cursor: Option<&str>) -> Result<Option<K>> {
    let Some(cursor) = cursor else { return Ok(None) };
    let value = BASE64_URL_SAFE_NO_PAD
        .decode(cursor)
        .ok()
        .and_then(|json| serde_json::from_slice::<Value>(&json).ok());
    let key = value.filter(|value| !holds_nul(value)).and_then(|value| serde_json::from_value(value).ok());
    key.map(Some).ok_or_else(|| Error::invalid_at("/cursor", "is not a cursor of this list"))
}

/// Postgres holds no such text, so no list gave out a cursor with it.
fn holds_nul(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(items) => items.iter().any(holds_nul),
        Value::Object(members) => members.values().any(holds_nul),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_cut_where_the_next_begins() {
        let limit = Limit(2);
        let page = Page::cut(vec![1, 2, 3], limit, |last| *last);
        assert_eq!(page.items, [1, 2]);
        assert_eq!(open::<i32>(page.next_cursor.as_deref()).unwrap(), Some(2));
        let page = Page::cut(vec![1, 2], limit, |last| *last);
        assert_eq!((page.items.len(), page.next_cursor), (2, None));
    }

    #[test]
    fn garbage_is_no_cursor() {
        for bad in ["", "?", "AAAA", &seal(&1), &seal(&"a\0b")] {
            assert!(open::<String>(Some(bad)).is_err(), "{bad:?}");
        }
        assert_eq!(open::<String>(None).unwrap(), None);
    }

    #[test]
    fn limits_are_checked() {
        assert!(Limit::try_from(0).is_err() && Limit::try_from(1001).is_err());
        assert_eq!(Limit::try_from(1000).unwrap().rows(), 1001);
    }
}
