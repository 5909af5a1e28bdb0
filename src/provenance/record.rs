//! A record of what one response gave, and its hash (provenance, "The record and re-retrieval").
//!
//! A record's hash is SHA-256 over its canonical content: one JSON object in the form of RFC 8785, in which the member
//! `previous` is the hash of the record before it. The object binds what the manifest holds and, for each item that is a
//! file, what its version holds: path, size and hash of the contents. Hashes are in hexadecimal.

use chrono::{DateTime, SecondsFormat, Utc};
use serde::Serialize;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::hex::hex;

/// The status of an item that was asked for and is kept from every reader. To callers it is a miss like any other; the
/// record keeps the attempt. The other statuses are those of
/// [`ItemStatus::code`](crate::item::ItemStatus::code).
pub const REFUSED: i16 = 6;

/// What kind of response a record is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A query, or one page of it.
    Query,
    /// A round of a session.
    Round,
    /// One thing of one source.
    Retrieve,
    /// A citation that was given back.
    Citation,
    /// A search of a corpus.
    Search,
    /// What was packed before a session's first prompt.
    Prefetch,
    /// A call of a tool within a session.
    Tool,
}

impl Kind {
    /// The word in the database and in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Query => "query",
            Kind::Round => "round",
            Kind::Retrieve => "retrieve",
            Kind::Citation => "citation",
            Kind::Search => "search",
            Kind::Prefetch => "prefetch",
            Kind::Tool => "tool",
        }
    }
}

/// One record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The tenant's number.
    pub tenant: i64,
    /// Its id.
    pub id: Uuid,
    /// One of [`Kind::as_str`].
    pub kind: String,
    /// The API key that asked; none for the command line.
    pub key_id: Option<i64>,
    /// The session whose chain it stands in.
    pub session_id: Option<Uuid>,
    /// The session's round.
    pub round: Option<i32>,
    /// Where it stands in its chain, from 1.
    pub position: i64,
    /// The hash of the record before it; the first has none.
    pub previous: Option<Vec<u8>>,
    /// When, in whole microseconds.
    pub created_at: DateTime<Utc>,
    /// The name of the slate that was looked at.
    pub slate: Option<String>,
    /// The declared folder, from the slate's root.
    pub folder: Option<String>,
    /// Whether the folders below were looked at.
    pub recursive: bool,
    /// The request, as JSON text. It is hashed as the text that it is, since numbers in it may have no canonical form.
    pub request: Option<String>,
    /// What was given, in order. Item n of it, from 1, is `<id>.<n>`.
    pub items: Vec<Item>,
}

/// A record that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// The record. Item n of it, from 1, is [`provenance_id`]`(id, n)`; its position is the length
    /// of its chain now.
    pub record: Record,
    /// Its hash, which is the end of its chain now.
    pub hash: Vec<u8>,
}

/// One item of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// The version that it names; none for listings and misses.
    pub file: Option<FileVersion>,
    /// What became of it: the code of an item's status, or [`REFUSED`].
    pub status: i16,
    /// The bits of the modes that matched it.
    pub matched_by: i16,
    /// The code of an [`Authority`](crate::authority::Authority).
    pub authority: i16,
    /// The code of a [`Freshness`](super::confidence::Freshness).
    pub freshness: i16,
    /// What was asked for, where the item is no file.
    pub asked: Option<String>,
    /// What the rest does not tell, where there is such: a [`Detail`](super::contract::Detail) as JSON text. It is hashed
    /// as the text that it is.
    pub detail: Option<String>,
}

/// One version of a file, as a record binds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileVersion {
    /// The file's number.
    pub file_id: i64,
    /// The version's number.
    pub version: i64,
    /// The path of that version, from the slate's root.
    pub path: String,
    /// Bytes of the contents.
    pub size: i64,
    /// SHA-256 of the contents.
    pub sha256: Vec<u8>,
}

// Members stand in the order of the canonical form: nothing has then to be sorted, which for a record of a thousand items
// would take longer than to hash it. All numbers are whole, and strings are escaped by either form alike.
#[derive(Serialize)]
struct Content<'a> {
    created_at: String,
    folder: Option<&'a str>,
    id: Uuid,
    items: Vec<ItemContent<'a>>,
    key_id: Option<i64>,
    kind: &'a str,
    position: i64,
    previous: Option<String>,
    recursive: bool,
    request: Option<&'a str>,
    round: Option<i32>,
    session_id: Option<Uuid>,
    slate: Option<&'a str>,
    tenant: i64,
}

#[derive(Serialize)]
struct ItemContent<'a> {
    asked: Option<&'a str>,
    authority: i16,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<&'a str>,
    file: Option<FileContent<'a>>,
    freshness: i16,
    matched_by: i16,
    status: i16,
}

#[derive(Serialize)]
struct FileContent<'a> {
    // As text: canonical JSON has no integers beyond 53 bits.
    file_id: String,
    path: &'a str,
    sha256: String,
    size: i64,
    version: String,
}

/// The record's canonical content.
///
/// # Errors
/// None that can be met: every member has a canonical form.
pub fn canonical(record: &Record) -> Result<Vec<u8>> {
    let items = record.items.iter().map(|item| ItemContent {
        file: item.file.as_ref().map(|file| FileContent {
            file_id: file.file_id.to_string(),
            version: file.version.to_string(),
            path: &file.path,
            size: file.size,
            sha256: hex(&file.sha256),
        }),
        status: item.status,
        matched_by: item.matched_by,
        authority: item.authority,
        freshness: item.freshness,
        asked: item.asked.as_deref(),
        detail: item.detail.as_deref(),
    });
    let content = Content {
        tenant: record.tenant,
        id: record.id,
        kind: &record.kind,
        key_id: record.key_id,
        session_id: record.session_id,
        round: record.round,
        position: record.position,
        previous: record.previous.as_deref().map(hex),
        created_at: record.created_at.to_rfc3339_opts(SecondsFormat::Micros, true),
        slate: record.slate.as_deref(),
        folder: record.folder.as_deref(),
        recursive: record.recursive,
        request: record.request.as_deref(),
        items: items.collect(),
    };
    serde_json::to_vec(&content).map_err(Error::internal)
}

/// The record's hash, 32 bytes.
///
/// # Errors
/// As [`canonical`].
pub fn hash(record: &Record) -> Result<Vec<u8>> {
    Ok(Sha256::digest(canonical(record)?).to_vec())
}

/// An item's id in the API: `<record>.<n>`, n from 1.
pub fn provenance_id(record: Uuid, n: usize) -> String {
    format!("{record}.{n}")
}

/// Parses the id of a record, or of an item in it.
pub fn parse_provenance_id(text: &str) -> Option<(Uuid, Option<i64>)> {
    let (id, n) = match text.split_once('.') {
        None => (text, None),
        Some((id, n)) => (id, Some(n)),
    };
    // Only the form in which ids are given out: the hyphenated one.
    let id = Uuid::try_parse(id).ok().filter(|uuid| id == uuid.as_hyphenated().to_string())?;
    let n = match n {
        None => None,
        Some(n) if n.starts_with('0') || !n.bytes().all(|b| b.is_ascii_digit()) => return None,
        Some(n) => Some(n.parse().ok()?),
    };
    Some((id, n))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        Record {
            tenant: 1,
            id: Uuid::from_u128(7),
            kind: Kind::Query.as_str().into(),
            key_id: Some(2),
            session_id: None,
            round: None,
            position: 1,
            previous: None,
            created_at: DateTime::from_timestamp_micros(1_700_000_000_000_001).unwrap(),
            slate: Some("K".into()),
            folder: Some("docs".into()),
            recursive: false,
            request: Some(r#"{"files":["a.md","\u0000"]}"#.into()),
            items: vec![
                Item {
                    file: Some(FileVersion {
                        file_id: 9_007_199_254_740_993,
                        version: 3,
                        path: "docs/a.md".into(),
                        size: 1,
                        sha256: vec![0xab; 32],
                    }),
                    status: 1,
                    matched_by: 9,
                    authority: 1,
                    freshness: 0,
                    asked: None,
                    detail: None,
                },
                Item {
                    file: None,
                    status: 3,
                    matched_by: 1,
                    authority: 1,
                    freshness: 2,
                    asked: Some("\0".into()),
                    detail: None,
                },
            ],
        }
    }

    #[test]
    fn the_content_is_canonical_json() {
        let text = String::from_utf8(canonical(&record()).unwrap()).unwrap();
        assert_eq!(
            text,
            concat!(
                r#"{"created_at":"2023-11-14T22:13:20.000001Z","folder":"docs","#,
                r#""id":"00000000-0000-0000-0000-000000000007","items":[{"asked":null,"authority":1,"#,
                r#""file":{"file_id":"9007199254740993","path":"docs/a.md","sha256":"abababababababababababababababababababababab"#,
                r#"abababababababababab","size":1,"version":"3"},"freshness":0,"matched_by":9,"status":1},"#,
                r#"{"asked":"\u0000","authority":1,"file":null,"freshness":2,"matched_by":1,"status":3}],"key_id":2,"#,
                r#""kind":"query","position":1,"previous":null,"recursive":false,"#,
                r#""request":"{\"files\":[\"a.md\",\"\\u0000\"]}","round":null,"session_id":null,"slate":"K","tenant":1}"#,
            )
        );
    }

    proptest::proptest! {
        #[test]
        fn it_is_that_of_rfc_8785(texts in proptest::array::uniform4(proptest::option::of(".*|[\\x00-\\x7f]*"))) {
            let mut record = record();
            let [folder, path, asked, detail] = texts;
            record.folder = folder;
            record.items[0].file.as_mut().unwrap().path = path.unwrap_or_default();
            (record.items[1].asked, record.items[1].detail) = (asked, detail);
            let bytes = canonical(&record).unwrap();
            let value: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
            proptest::prop_assert_eq!(serde_json_canonicalizer::to_vec(&value).unwrap(), bytes);
        }
    }

    #[test]
    fn every_member_is_bound() {
        let changes: [fn(&mut Record); 23] = [
            |r| r.tenant = 2,
            |r| r.id = Uuid::from_u128(8),
            |r| r.kind = "round".into(),
            |r| r.key_id = None,
            |r| r.session_id = Some(Uuid::nil()),
            |r| r.round = Some(1),
            |r| r.position = 2,
            |r| r.previous = Some(vec![0; 32]),
            |r| r.created_at += chrono::Duration::microseconds(1),
            |r| r.slate = Some("L".into()),
            |r| r.folder = None,
            |r| r.recursive = true,
            |r| r.request = Some("{}".into()),
            |r| r.items.swap(0, 1),
            |r| r.items.truncate(1),
            |r| r.items[0].status = 2,
            |r| r.items[0].matched_by = 1,
            |r| r.items[0].authority = 2,
            |r| r.items[0].freshness = 1,
            |r| r.items[1].asked = Some("a".into()),
            |r| r.items[1].detail = Some("{}".into()),
            |r| r.items[0].file.as_mut().unwrap().path.push('x'),
            |r| r.items[0].file.as_mut().unwrap().sha256[31] = 0,
        ];
        let mut hashes = std::collections::HashSet::from([hash(&record()).unwrap()]);
        for (i, change) in changes.iter().enumerate() {
            let mut changed = record();
            change(&mut changed);
            assert!(hashes.insert(hash(&changed).unwrap()), "change {i} is not seen");
        }
    }

    #[test]
    fn ids_go_round() {
        let id = Uuid::from_u128(7);
        assert_eq!(parse_provenance_id(&provenance_id(id, 12)), Some((id, Some(12))));
        assert_eq!(parse_provenance_id(&id.to_string()), Some((id, None)));
        for bad in [
            "",
            "x",
            "7.1",
            &format!("{id}."),
            &format!("{id}.0"),
            &format!("{id}.01"),
            &format!("{id}.-1"),
            &format!("{id}.1.2"),
            &format!("{{{id}}}"),
            &id.simple().to_string(),
            &format!("{id}.9223372036854775808"),
        ] {
            assert_eq!(parse_provenance_id(bad), None, "{bad}");
        }
    }
}
