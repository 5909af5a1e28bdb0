//! What is recorded of something that another host gave: a chunk of a gateway, the answer of a tool. It has no version and
//! no reference of its own; what is hashed is the text that was kept.

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::confidence::{Facts, Freshness, score};
use super::contract::{CitationView, Contract, Detail, Extraction, Retrieved, Source};
use super::record::Item;
use crate::authority::Authority;
use crate::error::Result;
use crate::item::ItemStatus;

/// Something that another host gave.
#[derive(Debug, Clone)]
pub struct Received<'a> {
    /// What was asked for.
    pub asked: &'a str,
    /// The host.
    pub host: &'a str,
    /// Whether it came over HTTPS.
    pub secure: bool,
    /// `text` or `json`.
    pub format: &'static str,
    /// Bytes of the text that was kept.
    pub size: i64,
    /// Its SHA-256: `sha256:` and 64 hexadecimal digits.
    pub hash: String,
    /// When it came.
    pub at: DateTime<Utc>,
    /// Who gave it, and what the hash is of, around the word for the transport.
    pub reliability: (&'static str, &'static str),
    /// What it rests on.
    pub assumptions: Vec<String>,
}

impl Received<'_> {
    /// The item of a record.
    ///
    /// # Errors
    /// None that can be met: every member serializes.
    pub fn item(self) -> Result<Item> {
        let (authority, freshness) = (Authority::default(), Freshness::Unknown);
        let transport = if self.secure { "HTTPS" } else { "plain HTTP" };
        let facts = Facts {
            remote: true,
            truncated: false,
            freshness,
            hashed: true,
            authority,
            encoding_guessed: false,
            failed: false,
        };
        let (by, of) = self.reliability;
        let contract = Contract {
            retrieved: Retrieved {
                target: self.asked.into(),
                source: format!("web:{}", self.host),
                timestamp: self.at,
                data: Value::Null,
                format: Some(self.format.into()),
                complete: true,
            },
            citation: CitationView { reference: None, version: None, hash: Some(self.hash), authority },
            provenance: Source {
                source_type: "web".into(),
                last_modified: None,
                freshness,
                reliability: format!("{by} over {transport}{of}"),
            },
            extraction: Extraction {
                applied_filters: None,
                original_size: self.size,
                returned_size: self.size,
                truncated: false,
            },
            confidence: score(facts),
            evidence_anchors: Vec::new(),
            assumptions: self.assumptions,
            failure: None,
        };
        Ok(Item {
            file: None,
            status: ItemStatus::Fetched.code(),
            matched_by: 0,
            authority: authority.code(),
            freshness: freshness.code(),
            asked: Some(self.asked.to_owned()),
            detail: Some(Detail::Contract(Box::new(contract)).text()?),
        })
    }
}
