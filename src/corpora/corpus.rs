//! A corpus, as its row in the catalogue says (corpora, "Corpus").

use std::time::Duration;

use chrono::{DateTime, Utc};
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};
use url::Url;

use super::entry::{Id, Status, http_url, secret};
use crate::error::{Error, FieldError, Result, pointer};
use crate::given::{member, unsigned};
use crate::path::{FolderPath, Name};

/// The most bytes of a row, as JSON.
pub const MAX_DOCUMENT: usize = 64 << 10;
/// The most bytes of a text in it that is known.
const MAX_TEXT: usize = 4096;
/// For how long a gateway may take, where the corpus does not say.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest that it may be given.
const MAX_TIMEOUT: f64 = 60.0;
/// How many passages a search gives, where the corpus does not say.
pub const DEFAULT_CHUNKS: usize = 20;
/// The most that it may be given.
pub const MAX_CHUNKS: usize = 100;

/// Members that are ours to tell, and so are not kept when they come back.
const OURS: [&str; 3] = ["corpus_id", "created_at", "updated_at"];

/// Where a corpus is searched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// In a slate, by this service: everything in a folder and below it.
    Slate {
        /// The slate's name.
        slate: Name,
        /// The folder.
        folder: FolderPath,
    },
    /// By the gateway at this URL.
    Http(Url),
}

/// What a row means to us.
#[derive(Debug, Clone, PartialEq)]
pub struct NewCorpus {
    /// Its id.
    pub id: Id,
    /// All members but those that are ours to tell, as they were given.
    pub document: Map<String, Value>,
    /// Where it is searched.
    pub place: Place,
    /// The name of the index at a gateway that serves several.
    pub collection: String,
    /// The stored secret that is sent as a bearer token.
    pub secret: Option<Id>,
    /// Whether it is used.
    pub status: Status,
    /// For how long its gateway may take.
    pub timeout: Duration,
    /// How many passages a search gives at most.
    pub max_chunks: usize,
}

/// A corpus of the catalogue.
#[derive(Debug, Clone, PartialEq)]
pub struct Corpus {
    /// What it says.
    pub row: NewCorpus,
    /// Counts its changes.
    pub revision: i64,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When it last changed.
    pub updated_at: DateTime<Utc>,
}

impl NewCorpus {
    /// Reads a row.
    ///
    /// # Errors
    /// 422 for each member that is wrong.
    pub fn parse(id: Id, mut document: Map<String, Value>) -> Result<NewCorpus> {
        let mut errors = Vec::new();
        let mut wrong = |at: &str, detail: &str| errors.push(FieldError::new(pointer("", at), detail));
        if member(&document, "corpus_id").is_some_and(|given| given != id.as_str()) {
            wrong("corpus_id", "is another id than that of the path");
        }
        OURS.iter().for_each(|member| drop(document.shift_remove(*member)));
        let mut text = |member: &str| match document.get(member) {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) if text.len() <= MAX_TEXT && !text.contains('\0') => {
                Some(text.as_str())
            }
            Some(_) => {
                wrong(member, &format!("must be a text of at most {MAX_TEXT} bytes without U+0000"));
                None
            }
        };
        for member in ["display_name", "owner"] {
            text(member);
        }
        let (url, auth, status) = (text("url"), text("auth"), text("status"));
        let collection = text("collection").map(str::to_owned);
        if collection.as_deref() == Some("") {
            wrong("collection", "must not be empty");
        }
        let place = match url.map(place) {
            Some(Ok(place)) => Some(place),
            Some(Err(detail)) => {
                wrong("url", &detail);
                None
            }
            None if document.get("url").is_none_or(Value::is_null) => {
                wrong("url", "is required");
                None
            }
            None => None,
        };
        let secret = secret(auth).unwrap_or_else(|detail| {
            wrong("auth", detail);
            None
        });
        let status = status.map_or(Some(Status::default()), Status::from_word).unwrap_or_else(|| {
            wrong("status", "must be `draft`, `published` or `deprecated`");
            Status::Draft
        });
        let timeout = match document.get("timeout_seconds") {
            None | Some(Value::Null) => DEFAULT_TIMEOUT,
            Some(value) => match value.as_f64().filter(|seconds| (0.001..=MAX_TIMEOUT).contains(seconds)) {
                Some(seconds) => Duration::from_secs_f64(seconds),
                None => {
                    wrong("timeout_seconds", &format!("must be a number from 0.001 to {MAX_TIMEOUT}"));
                    DEFAULT_TIMEOUT
                }
            },
        };
        let max_chunks = match document.get("max_chunks") {
            None | Some(Value::Null) => DEFAULT_CHUNKS,
            Some(value) => match unsigned(value).filter(|most| (1..=MAX_CHUNKS as u64).contains(most)) {
                Some(most) => most as usize,
                None => {
                    wrong("max_chunks", &format!("must be an integer from 1 to {MAX_CHUNKS}"));
                    DEFAULT_CHUNKS
                }
            },
        };
        if Value::Object(document.clone()).to_string().len() > MAX_DOCUMENT {
            errors.push(FieldError::new("", format!("a corpus may have {MAX_DOCUMENT} bytes")));
        }
        let Some(place) = place.filter(|_| errors.is_empty()) else { return Err(Error::invalid(errors)) };
        let collection = collection.unwrap_or_else(|| id.as_str().to_owned());
        Ok(NewCorpus { id, document, place, collection, secret, status, timeout, max_chunks })
    }

    /// Whether its gateway is this service itself, which others reach at `public`.
    pub fn is_ours(&self, public: &Url) -> bool {
        let Place::Http(url) = &self.place else { return false };
        let at = |url: &Url| {
            (url.scheme().to_owned(), url.host_str().map(str::to_owned), url.port_or_known_default())
        };
        let below = url.path().strip_prefix(public.path().trim_end_matches('/'));
        let parts: Vec<&str> = below.unwrap_or_default().split('/').collect();
        let gateway = match parts[..] {
            ["", "v1", "search"] => true,
            ["", "v1", "search", gateway] => !gateway.is_empty(),
            ["", "corpora", corpus, "search"] => !corpus.is_empty(),
            _ => false,
        };
        at(url) == at(public) && gateway && url.query().is_none()
    }

    /// The slate and the folder, where this service serves it.
    pub fn slate(&self) -> Option<(&str, &str)> {
        match &self.place {
            Place::Slate { slate, folder } => Some((slate.as_str(), folder.as_str())),
            Place::Http(_) => None,
        }
    }
}

impl Corpus {
    /// The strong entity tag.
    pub fn etag(&self) -> String {
        format!("\"c{}.{}\"", self.created_at.timestamp_micros(), self.revision)
    }

    /// The row as it was given, with its id, what it left to its default, and when it was made.
    pub fn view(&self) -> Value {
        let mut view = Map::from_iter([("corpus_id".to_owned(), Value::from(self.row.id.as_str()))]);
        view.extend(self.row.document.clone());
        let given = |view: &Map<String, Value>, name: &str| view.get(name).is_some_and(|v| !v.is_null());
        if !given(&view, "collection") {
            view.insert("collection".into(), self.row.collection.as_str().into());
        }
        if !given(&view, "status") {
            view.insert("status".into(), self.row.status.as_str().into());
        }
        for (name, at) in [("created_at", self.created_at), ("updated_at", self.updated_at)] {
            view.insert(name.into(), at.to_rfc3339_opts(chrono::SecondsFormat::AutoSi, true).into());
        }
        Value::Object(view)
    }
}

/// What a `url` names: an `http(s)` gateway, or `slate:<slate>/<folder>`, each name of which may be percent-encoded.
fn place(url: &str) -> Result<Place, String> {
    let Some(rest) = url.strip_prefix("slate:") else {
        return http_url(url)
            .map(Place::Http)
            .map_err(|detail| format!("{detail}, or `slate:<slate>/<folder>`"));
    };
    let (slate, folder) = rest.split_once('/').unwrap_or((rest, ""));
    let decoded = |text: &str| {
        let text = percent_decode_str(text).decode_utf8();
        text.map(|text| text.into_owned()).map_err(|_| "must be percent-encoded UTF-8".to_owned())
    };
    let slate = Name::parse(&decoded(slate)?).map_err(|error| format!("the slate's name {error}"))?;
    let folder = decoded(folder.strip_suffix('/').unwrap_or(folder))?;
    let folder = FolderPath::parse(&folder).map_err(|error| format!("the folder's path {error}"))?;
    Ok(Place::Slate { slate, folder })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(document: Value) -> Result<NewCorpus> {
        NewCorpus::parse(Id::parse("c").unwrap(), document.as_object().unwrap().clone())
    }

    #[test]
    fn gateways_of_this_service() {
        let ours = |url: &str, public: &str| {
            parse(json!({"url": url})).unwrap().is_ours(&Url::parse(public).unwrap())
        };
        let public = "https://kb.example/base/";
        for url in ["v1/search", "v1/search/any", "corpora/c/search"] {
            assert!(ours(&format!("https://kb.example:443/base/{url}"), public), "{url}");
            assert!(ours(&format!("http://h/{url}"), "http://h"), "{url}");
        }
        for url in [
            "https://kb.example/v1/search",
            "http://kb.example/base/v1/search",
            "https://kb.example:8443/base/v1/search",
            "https://kb.example/base/v1/search/",
            "https://kb.example/base/v1/search?x=1",
            "https://kb.example/based/v1/search",
            "https://other.example/base/v1/search",
            "slate:K",
        ] {
            assert!(!ours(url, public), "{url}");
        }
    }

    #[test]
    fn places() {
        let slate = |url: &str| match place(url) {
            Ok(Place::Slate { slate, folder }) => format!("{slate} {folder:?}"),
            other => format!("{other:?}"),
        };
        assert_eq!(slate("slate:Knowledge/policies"), "Knowledge FolderPath(\"policies\")");
        assert_eq!(slate("slate:K"), "K FolderPath(\"\")");
        assert_eq!(slate("slate:K/"), "K FolderPath(\"\")");
        assert_eq!(slate("slate:My%20Slate/a%20b/c/"), "My Slate FolderPath(\"a b/c\")");
        for bad in
            ["slate:", "slate:/a", "slate:K//a", "slate:K/../a", "slate:K/%FF", "slate://K/a", "ftp://x"]
        {
            assert!(place(bad).is_err(), "{bad}");
        }
        assert!(matches!(place("https://h/x"), Ok(Place::Http(_))));
    }

    #[test]
    fn what_is_left_out_has_its_default() {
        let corpus = parse(json!({"url": "slate:K", "region": "eu", "updated_at": 1})).unwrap();
        assert_eq!((corpus.collection.as_str(), corpus.status), ("c", Status::Draft));
        assert_eq!((corpus.timeout, corpus.max_chunks, corpus.secret), (DEFAULT_TIMEOUT, 20, None));
        assert_eq!(Value::Object(corpus.document), json!({"url": "slate:K", "region": "eu"}));
    }

    #[test]
    fn every_wrong_member_is_named() {
        let wrong = json!({"corpus_id": "d", "url": 1, "collection": "", "auth": "a b", "status": "active", "owner": 3,
            "timeout_seconds": 0, "max_chunks": 101});
        let error = parse(wrong).unwrap_err();
        let mut pointers: Vec<_> = error.errors.iter().map(|e| e.pointer.as_str()).collect();
        pointers.sort_unstable();
        let all = [
            "/auth",
            "/collection",
            "/corpus_id",
            "/max_chunks",
            "/owner",
            "/status",
            "/timeout_seconds",
            "/url",
        ];
        assert_eq!(pointers, all);
        assert_eq!(parse(json!({})).unwrap_err().errors[0].pointer, "/url");
        let large = json!({"url": "slate:K", "x": "y".repeat(MAX_DOCUMENT)});
        assert_eq!(parse(large).unwrap_err().errors[0].pointer, "");
    }
}
