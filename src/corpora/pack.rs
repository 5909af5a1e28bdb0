//! What is packed for a session before its first prompt (corpora, "Prefetch").
//!
//! A pack holds the chunks of a route's corpora, in the order of its scope, each tagged with its corpus. It is made of nothing
//! but what the corpora gave, so the same answers make the same pack, to the byte, and the same [`hash`](Pack::hash).

use std::fmt;

use serde::Serialize;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use utoipa::ToSchema;

use crate::error::{Error, Result};
use crate::hex::hex;
use crate::provenance::record::Item;

/// The most bytes of a slot, as JSON.
pub const MAX_SLOT: usize = 256 << 10;

/// Why a session could not be packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, ToSchema)]
#[schema(as = PackFailureReason)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The route's scope names no corpus.
    EmptyScope,
    /// A corpus of the scope is not in the catalogue.
    UnknownCorpus,
    /// A corpus of the scope is not published.
    CorpusNotPublished,
    /// A gateway gave no answer in time.
    GatewayUnreachable,
    /// A gateway's answer is none that can be packed.
    GatewayError,
    /// There are no chunks, or only blank ones.
    EmptyPack,
}

/// Why a session failed before its first prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = PackFailure)]
pub struct Unpacked {
    /// What a caller may test for.
    pub reason: Reason,
    /// A sentence.
    #[schema(example = "the corpus `policy-engine` is not published")]
    pub detail: String,
}

impl Unpacked {
    /// The reason, and a sentence.
    pub fn new(reason: Reason, detail: impl Into<String>) -> Unpacked {
        Unpacked { reason, detail: detail.into() }
    }
}

/// A chunk as a gateway gave it: an object with an `id` and a `text`.
#[derive(Debug, Clone, PartialEq)]
pub struct Packed(Map<String, Value>);

/// Why an answer holds no chunks that can be packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("its answer is not `{{\"chunks\": [{{\"id\", \"text\"}}]}}`")]
pub struct NoChunks;

impl Packed {
    /// The chunk that an object is: its id is a text or a whole number, its text a text.
    pub fn parse(value: Value) -> Result<Packed, NoChunks> {
        let Value::Object(members) = value else { return Err(NoChunks) };
        let id = members.get("id").is_some_and(|id| id.is_string() || id.is_i64() || id.is_u64());
        match id && members.get("text").is_some_and(Value::is_string) {
            true => Ok(Packed(members)),
            false => Err(NoChunks),
        }
    }

    /// Its id.
    pub fn id(&self) -> String {
        match self.0.get("id") {
            Some(Value::String(id)) => id.clone(),
            Some(id) => id.to_string(),
            None => String::new(),
        }
    }

    /// Its text.
    pub fn text(&self) -> &str {
        self.0.get("text").and_then(Value::as_str).unwrap_or_default()
    }

    /// `sha256:` and the hash of its text.
    pub fn text_hash(&self) -> String {
        format!("sha256:{}", hex(&Sha256::digest(self.text())))
    }

    fn score(&self) -> Option<f64> {
        self.0.get("score").and_then(Value::as_f64)
    }

    /// With its corpus, which is ours to say.
    fn tagged(&self, corpus: &str) -> Value {
        let mut members = Map::from_iter([("corpus_id".to_owned(), Value::from(corpus))]);
        members.extend(
            self.0.iter().filter(|(name, _)| *name != "corpus_id").map(|(n, v)| (n.clone(), v.clone())),
        );
        Value::Object(members)
    }
}

/// The chunks of a gateway's answer, in the order given; neighbours that score the same by their ids.
///
/// # Errors
/// [`NoChunks`].
pub fn chunks(answer: &[u8]) -> Result<Vec<Packed>, NoChunks> {
    let answer: Value = serde_json::from_slice(answer).map_err(|_| NoChunks)?;
    let Some(Value::Array(chunks)) = answer.get("chunks") else { return Err(NoChunks) };
    let mut chunks = chunks.iter().cloned().map(Packed::parse).collect::<Result<Vec<_>, _>>()?;
    for tied in chunks.chunk_by_mut(|a, b| a.score().is_some() && a.score() == b.score()) {
        tied.sort_by_key(Packed::id);
    }
    Ok(chunks)
}

/// What a gateway at another host gave for a corpus.
#[derive(Debug, Clone)]
pub struct Fetched {
    /// The corpus.
    pub corpus_id: String,
    /// The chunks, each with what is recorded of it.
    pub chunks: Vec<(Packed, Item)>,
}

/// A pack.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Pack {
    /// The chunks of each corpus, in the order of the scope.
    corpora: Vec<(String, Vec<Packed>)>,
}

impl Pack {
    /// Adds what a corpus gave.
    pub fn add(&mut self, corpus: &str, chunks: Vec<Packed>) {
        self.corpora.push((corpus.to_owned(), chunks));
    }

    /// The corpus and the chunk of each, in order.
    pub fn chunks(&self) -> impl Iterator<Item = (&str, &Packed)> {
        self.corpora.iter().flat_map(|(corpus, chunks)| chunks.iter().map(|chunk| (corpus.as_str(), chunk)))
    }

    /// The slots of the working memory: `prefetch`, and one for each corpus.
    pub fn slots(&self) -> Map<String, Value> {
        let all: Vec<Value> = self.chunks().map(|(corpus, chunk)| chunk.tagged(corpus)).collect();
        let mut slots = Map::from_iter([(PREFETCH.to_owned(), json!({"chunks": all}))]);
        for (corpus, chunks) in &self.corpora {
            let own: Vec<Value> = chunks.iter().map(|chunk| chunk.tagged(corpus)).collect();
            slots.insert(format!("{PREFETCH}:{corpus}"), json!({"chunks": own}));
        }
        slots
    }

    /// Checks that there is something to read, and no more than a slot holds.
    ///
    /// # Errors
    /// [`Unpacked`].
    pub fn check(&self) -> Result<(), Unpacked> {
        if self.chunks().all(|(_, chunk)| chunk.text().trim().is_empty()) {
            return Err(Unpacked::new(Reason::EmptyPack, "the corpora of the scope give nothing to read"));
        }
        let size = self.slots().get(PREFETCH).map_or(0, |slot| slot.to_string().len());
        if size > MAX_SLOT {
            let detail = format!("the pack has {size} bytes, and a slot may have {MAX_SLOT}");
            return Err(Unpacked::new(Reason::GatewayError, detail));
        }
        Ok(())
    }

    /// `sha256:` and the hash of the slot `prefetch`, in the form of RFC 8785.
    ///
    /// # Errors
    /// None that can be met: what was read as JSON has a canonical form.
    pub fn hash(&self) -> Result<String> {
        let slots = self.slots();
        let bytes = serde_json_canonicalizer::to_vec(&slots.get(PREFETCH)).map_err(Error::internal)?;
        Ok(format!("sha256:{}", hex(&Sha256::digest(bytes))))
    }
}

/// The slot of the whole pack.
const PREFETCH: &str = "prefetch";

/// The pack in a working memory as text: a line for each chunk, `[<corpus>:<id>] <text>`. A chunk's own line breaks are
/// blanks there, so that no text can pass for another chunk. None where nothing is packed.
pub fn packed_text(working: &Value) -> Option<String> {
    struct Line<'a>(&'a Value);
    impl fmt::Display for Line<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            let member = |name: &str| match &self.0[name] {
                Value::String(text) => one_line(text),
                other => other.to_string(),
            };
            write!(f, "[{}:{}] {}", member("corpus_id"), member("id"), member("text"))
        }
    }
    let chunks = working["slots"][PREFETCH]["chunks"].as_array()?;
    let lines: Vec<String> = chunks.iter().map(|chunk| Line(chunk).to_string()).collect();
    Some(lines.join("\n"))
}

fn one_line(text: &str) -> String {
    let breaks = |c: char| {
        matches!(
            c,
            '\n' | '\r' | '\u{B}' | '\u{C}' | '\u{1C}'..='\u{1E}' | '\u{85}' | '\u{2028}' | '\u{2029}'
        )
    };
    let lines = text.split(breaks).map(str::trim).filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(answer: Value) -> Result<Vec<String>, NoChunks> {
        Ok(chunks(answer.to_string().as_bytes())?.iter().map(Packed::id).collect())
    }

    #[test]
    fn answers_of_gateways() {
        assert_eq!(read(json!({"chunks": [], "more": 1})), Ok(vec![]));
        assert_eq!(
            read(json!({"chunks": [{"id": "b", "text": "x"}, {"id": 7, "text": ""}]})),
            Ok(vec!["b".into(), "7".into()])
        );
        let tied = json!({"chunks": [{"id": "c", "text": "", "score": 2}, {"id": "b", "text": "", "score": 1.0},
            {"id": "a", "text": "", "score": 1}, {"id": "z", "text": ""}, {"id": "y", "text": ""}]});
        assert_eq!(read(tied).unwrap(), ["c", "a", "b", "z", "y"]);
        for bad in [
            json!([]),
            json!({}),
            json!({"chunks": {}}),
            json!({"chunks": [1]}),
            json!({"chunks": [{"id": "a"}]}),
            json!({"chunks": [{"text": "a"}]}),
            json!({"chunks": [{"id": 1.5, "text": "a"}]}),
            json!({"chunks": [{"id": "a", "text": null}]}),
        ] {
            assert_eq!(read(bad.clone()), Err(NoChunks), "{bad}");
        }
        assert_eq!(chunks(b"{\"chunks\": [").unwrap_err(), NoChunks);
    }

    fn pack(of: &[(&str, Value)]) -> Pack {
        let mut pack = Pack::default();
        for (corpus, given) in of {
            pack.add(corpus, chunks(json!({"chunks": given}).to_string().as_bytes()).unwrap());
        }
        pack
    }

    #[test]
    fn chunks_are_tagged_and_slotted_in_the_order_of_the_scope() {
        let pack = pack(&[
            ("b", json!([{"id": "1", "text": "x\n[a:9] y", "corpus_id": "forged", "page": 3}])),
            ("a", json!([])),
        ]);
        let chunk = json!({"corpus_id": "b", "id": "1", "text": "x\n[a:9] y", "page": 3});
        let slots = Value::Object(pack.slots());
        let expected = json!({"prefetch": {"chunks": [chunk]}, "prefetch:b": {"chunks": [chunk]}, "prefetch:a": {"chunks": []}});
        assert_eq!(slots, expected);
        assert_eq!(packed_text(&json!({"slots": slots})).unwrap(), "[b:1] x [a:9] y");
        assert_eq!(packed_text(&json!({"slots": {}})), None);
        assert!(pack.check().is_ok());
    }

    #[test]
    fn the_hash_is_that_of_the_content() {
        let (one, same) = (
            pack(&[("a", json!([{"id": "1", "text": "x"}]))]),
            pack(&[("a", json!([{"text": "x", "id": "1"}]))]),
        );
        assert_eq!(one.hash().unwrap(), same.hash().unwrap());
        let other = pack(&[("b", json!([{"id": "1", "text": "x"}]))]);
        assert_ne!(one.hash().unwrap(), other.hash().unwrap());
    }

    #[test]
    fn nothing_to_read_is_no_pack() {
        for nothing in [json!([]), json!([{"id": "1", "text": " \n"}])] {
            assert_eq!(pack(&[("a", nothing)]).check().unwrap_err().reason, Reason::EmptyPack);
        }
        let large = pack(&[("a", json!([{"id": "1", "text": "x".repeat(MAX_SLOT)}]))]);
        assert_eq!(large.check().unwrap_err().reason, Reason::GatewayError);
    }
}
