//! The corpora that this service searches itself (corpora, "Our own gateway").

use std::collections::BTreeSet;

use serde_json::Value;
use uuid::Uuid;

use crate::corpora::chunk::{Chunk, Given, given};
use crate::corpora::corpus::{Corpus, Place};
use crate::corpora::entry::Status;
use crate::corpora::ops;
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::{Error, Result};
use crate::passages::terms;
use crate::provenance::ops::NewRecord;
use crate::provenance::record::Kind;
use crate::{passages, provenance, slates};

/// What a search gave.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The best first.
    pub chunks: Vec<Chunk>,
    /// The record, whose item n is chunk n; none where there are no chunks.
    pub record: Option<Uuid>,
}

/// Searches the published corpus that `collection` names, by its id or else by its index name, and records what it gives.
/// `sent` is the request as it was sent.
///
/// # Errors
/// [`Code::NotFound`](crate::error::Code::NotFound) when there is no such corpus, it is not published, lies in no slate,
/// or in one that the key may not touch.
pub fn search(tx: &mut Tx, ctx: &Ctx, collection: &str, goal: &Value, sent: &Value) -> Result<Answer> {
    let corpus = ops::find_collection(tx, ctx, collection)?.ok_or_else(Error::not_found)?;
    let Place::Slate { slate, folder } = &corpus.row.place else { return Err(Error::not_found()) };
    if corpus.row.status != Status::Published {
        return Err(Error::not_found());
    }
    let given = passages(tx, ctx, &[&corpus], goal)?.pop().unwrap_or_default();
    if given.is_empty() {
        return Ok(Answer { chunks: Vec::new(), record: None });
    }
    let (chunks, items) = given.into_iter().map(|given| (given.chunk, given.item)).unzip();
    let new = NewRecord {
        kind: Kind::Search,
        link: None,
        slate: Some(slate.as_str()),
        folder: Some(folder.as_str()),
        recursive: true,
        request: Some(sent),
        items,
    };
    let record = provenance::ops::record(tx, ctx, new)?;
    Ok(Answer { chunks, record: Some(record.record.id) })
}

/// The best passages of each corpus for a goal; of one that lies in no slate, or in one that is not there, none.
///
/// # Errors
/// Those of the database.
pub fn passages(tx: &mut Tx, ctx: &Ctx, corpora: &[&Corpus], goal: &Value) -> Result<Vec<Vec<Given>>> {
    let names: BTreeSet<&str> = corpora.iter().filter_map(|corpus| Some(corpus.row.slate()?.0)).collect();
    let slates = slates::ops::find_many(tx, ctx, &names.into_iter().collect::<Vec<_>>())?;
    let slate = |corpus: &Corpus| {
        slates.iter().find(|slate| corpus.row.slate().is_some_and(|(of, _)| of == slate.name))
    };
    let mut places = Vec::with_capacity(corpora.len());
    for (n, corpus) in corpora.iter().enumerate() {
        if let (Some(slate), Place::Slate { folder, .. }) = (slate(corpus), &corpus.row.place) {
            places.push((n, slate, folder, corpus.row.max_chunks as i64));
        }
    }
    let asked: Vec<_> = (places.iter())
        .map(|(_, slate, folder, limit)| passages::ops::Place {
            home: slate.home(),
            folder: folder.as_str(),
            limit: *limit,
        })
        .collect();
    let mut all: Vec<Vec<Given>> = corpora.iter().map(|_| Vec::new()).collect();
    if asked.is_empty() {
        return Ok(all);
    }
    let found = passages::ops::search(tx, &asked, &terms::text(goal))?;
    for ((n, slate, folder, _), hits) in places.into_iter().zip(found) {
        all[n] = hits.into_iter().map(|hit| given(hit, slate, folder, ctx.now)).collect::<Result<_>>()?;
    }
    Ok(all)
}
