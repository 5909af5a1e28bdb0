//! Opening a session with what its route has packed for it (corpora, "Prefetch").

use serde_json::{Value, json};
use url::Url;

use super::{NewSession, checked, events, view};
use crate::corpora::chunk::Given;
use crate::corpora::corpus::{Corpus, NewCorpus, Place};
use crate::corpora::entry::Status;
use crate::corpora::ops as corpora;
use crate::corpora::ops::gateway;
use crate::corpora::pack::{Fetched, Pack, Packed, Reason, Unpacked, packed_text};
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::{Error, Result};
use crate::provenance;
use crate::provenance::ops::{Link, NewRecord};
use crate::provenance::record::{Item, Kind};
use crate::routes::ops as routes;
use crate::routes::route::Mode;
use crate::sessions::event::Happened;
use crate::sessions::machine::{self, Event};
use crate::sessions::ops::{Loaded, refusal};
use crate::sessions::store;
use crate::sessions::view::SessionView;

/// What was begun of opening a session.
#[derive(Debug)]
pub enum Begun {
    /// It is open, or has failed.
    Opened(Box<SessionView>),
    /// These corpora of the scope are to be asked first, in this order; then [`finish`] opens it.
    Ask(Vec<Corpus>),
}

/// Opens a session, unless its route has corpora at other hosts, which are asked while no transaction is held. A corpus whose
/// gateway is this service, which others reach at `public`, is searched as what it stands for.
///
/// # Errors
/// As [`open`](super::open); [`Code::Invalid`](crate::error::Code::Invalid) where there is no such published route.
pub fn begin(tx: &mut Tx, ctx: &Ctx, new: &NewSession, public: Option<&Url>) -> Result<Begun> {
    let found = match scope(tx, ctx, new, public)? {
        None => return super::open(tx, ctx, new).map(Box::new).map(Begun::Opened),
        Some(found) => found,
    };
    // What is wrong with the rest is told before anyone is asked.
    let session = checked(tx, ctx, new)?;
    if let Ok(scope) = &found {
        let far = scope.iter().filter(|corpus| matches!(corpus.row.place, Place::Http(_)));
        let far: Vec<Corpus> = far.cloned().collect();
        if !far.is_empty() {
            return Ok(Begun::Ask(far));
        }
    }
    let packed = match found {
        Ok(scope) => pack(tx, ctx, new, scope, Vec::new())?,
        Err(unpacked) => Err(unpacked),
    };
    open_packed(tx, ctx, session, packed).map(Box::new).map(Begun::Opened)
}

/// Opens a session with what the corpora at other hosts gave; or as failed, where they gave nothing.
///
/// # Errors
/// As [`begin`].
pub fn finish(
    tx: &mut Tx,
    ctx: &Ctx,
    new: &NewSession,
    public: Option<&Url>,
    fetched: Result<Vec<Fetched>, Unpacked>,
) -> Result<SessionView> {
    let session = checked(tx, ctx, new)?;
    let packed = match fetched {
        Ok(fetched) => match scope(tx, ctx, new, public)? {
            Some(Ok(scope)) => pack(tx, ctx, new, scope, fetched)?,
            Some(Err(unpacked)) => Err(unpacked),
            None => pack(tx, ctx, new, Vec::new(), fetched)?,
        },
        Err(unpacked) => Err(unpacked),
    };
    open_packed(tx, ctx, session, packed)
}

/// Opens the session with what was packed, or as failed.
fn open_packed(
    tx: &mut Tx,
    ctx: &Ctx,
    mut session: Loaded,
    packed: Result<(Pack, Vec<Source>), Unpacked>,
) -> Result<SessionView> {
    match packed {
        Ok((pack, items)) => {
            session.row.working = json!({"slots": pack.slots(), "notes": []});
            let text = packed_text(&session.row.working);
            session.row.working["notes"] = json!(text.into_iter().collect::<Vec<_>>());
            record(tx, ctx, &mut session, &pack, items)?;
        }
        Err(unpacked) => {
            let (state, _) = machine::step(session.state, Event::Fail).map_err(refusal)?;
            session.state = state;
            session.row.status = state.status.as_str().into();
            session.row.failure = Some(json!(unpacked));
            session.row.finished_at = Some(ctx.now);
        }
    }
    store::insert(tx, &session.row)?;
    if session.state.status.is_finished() {
        store::seal(tx, &session.row, ctx.now)?;
        let told = Happened::Finished { status: session.state.status, failure: session.row.failure.clone() };
        events::append(tx, session.row.id, &told, ctx.now)?;
    }
    view(tx, session)
}

/// The corpora that are to be packed, in order, or why none can be; none where the session's route packs nothing.
fn scope(
    tx: &mut Tx,
    ctx: &Ctx,
    new: &NewSession,
    public: Option<&Url>,
) -> Result<Option<Result<Vec<Corpus>, Unpacked>>> {
    let Some(named) = &new.route else { return Ok(None) };
    let (id, version) = (named.route_id.as_str(), named.route_version.as_str());
    let found = routes::find_route(tx, id, version)?.filter(|(_, status)| *status == Status::Published);
    let (route, _) = found
        .ok_or_else(|| Error::invalid_at("/route", "there is no published route of this id and version"))?;
    let Some(retrieval) = route.retrieval.filter(|retrieval| retrieval.mode == Mode::DeterministicPrefetch)
    else {
        return Ok(None);
    };
    if retrieval.scope.is_empty() {
        let detail = format!("the scope of the route `{id}` names no corpus");
        return Ok(Some(Err(Unpacked::new(Reason::EmptyScope, detail))));
    }
    let ids: Vec<&str> = retrieval.scope.iter().map(|id| id.as_str()).collect();
    let there = corpora::find_many(tx, ctx, &ids)?;
    let mut scope = Vec::with_capacity(retrieval.scope.len());
    for id in &retrieval.scope {
        match there.iter().find(|corpus| corpus.row.id == *id).cloned() {
            None => {
                let detail = format!("there is no corpus `{id}` in the catalogue");
                return Ok(Some(Err(Unpacked::new(Reason::UnknownCorpus, detail))));
            }
            Some(corpus) if corpus.row.status != Status::Published => {
                let detail = format!("the corpus `{id}` is not published");
                return Ok(Some(Err(Unpacked::new(Reason::CorpusNotPublished, detail))));
            }
            Some(corpus) if public.is_some_and(|public| corpus.row.is_ours(public)) => {
                match stands_for(tx, ctx, corpus)? {
                    Ok(corpus) => scope.push(corpus),
                    Err(unpacked) => return Ok(Some(Err(unpacked))),
                }
            }
            Some(corpus) => scope.push(corpus),
        }
    }
    Ok(Some(Ok(scope)))
}

/// A corpus whose gateway is this service, with the place of the one that the gateway would search.
fn stands_for(tx: &mut Tx, ctx: &Ctx, corpus: Corpus) -> Result<Result<Corpus, Unpacked>> {
    let found = corpora::find_collection(tx, ctx, &corpus.row.collection)?;
    let found = found.filter(|found| found.row.slate().is_some() && found.row.status == Status::Published);
    let Some(found) = found else {
        let (id, collection) = (&corpus.row.id, &corpus.row.collection);
        let detail = format!("the corpus `{id}`: no published corpus of a slate is named `{collection}`");
        return Ok(Err(Unpacked::new(Reason::GatewayError, detail)));
    };
    let NewCorpus { place, max_chunks, .. } = found.row;
    Ok(Ok(Corpus { row: NewCorpus { place, max_chunks, ..corpus.row }, ..corpus }))
}

/// What is recorded of each chunk: its slate and folder, where it comes from one, and the item.
struct Source {
    slate: Option<(String, String)>,
    item: Item,
}

/// Puts the pack together: what was fetched, and what the slates' corpora give now.
fn pack(
    tx: &mut Tx,
    ctx: &Ctx,
    new: &NewSession,
    scope: Vec<Corpus>,
    fetched: Vec<Fetched>,
) -> Result<Result<(Pack, Vec<Source>), Unpacked>> {
    let goal = new.goal.clone().unwrap_or_else(|| json!({}));
    let (mut pack, mut sources) = (Pack::default(), Vec::new());
    let near: Vec<&Corpus> = scope.iter().filter(|corpus| corpus.row.slate().is_some()).collect();
    let mut given = gateway::passages(tx, ctx, &near, &goal)?.into_iter();
    let mut fetched = fetched.into_iter().map(|from| (from.corpus_id, from.chunks)).collect::<Vec<_>>();
    for corpus in &scope {
        let id = corpus.row.id.as_str();
        let mut chunks = Vec::new();
        match corpus.row.slate() {
            Some((slate, folder)) => {
                for Given { chunk, item } in given.next().unwrap_or_default() {
                    let value = serde_json::to_value(&chunk).map_err(Error::internal)?;
                    chunks.push(Packed::parse(value).map_err(Error::internal)?);
                    sources.push(Source { slate: Some((slate.to_owned(), folder.to_owned())), item });
                }
            }
            None => {
                let Some(at) = fetched.iter().position(|(of, _)| of == id) else {
                    let detail = format!("the corpus `{id}` was moved while the pack was made");
                    return Ok(Err(Unpacked::new(Reason::GatewayError, detail)));
                };
                for (chunk, item) in fetched.swap_remove(at).1 {
                    chunks.push(chunk);
                    sources.push(Source { slate: None, item });
                }
            }
        }
        pack.add(id, chunks);
    }
    Ok(pack.check().map(|()| (pack, sources)))
}

/// One record a chunk, each with the pack's hash, in the session's chain.
fn record(tx: &mut Tx, ctx: &Ctx, session: &mut Loaded, pack: &Pack, sources: Vec<Source>) -> Result<()> {
    let hash = pack.hash()?;
    let row = &mut session.row;
    let requests: Vec<Value> = (pack.chunks())
        .map(|(corpus, chunk)| {
            json!({"pack": hash, "route": row.route, "corpus_id": corpus, "chunk_id": chunk.id(),
                "text": chunk.text_hash()})
        })
        .collect();
    let records = sources.iter().zip(&requests).map(|(source, request)| {
        let (slate, folder) = source.slate.as_ref().map(|(s, f)| (s.as_str(), f.as_str())).unzip();
        NewRecord {
            kind: Kind::Prefetch,
            link: None,
            slate,
            folder,
            recursive: true,
            request: Some(request),
            items: vec![source.item.clone()],
        }
    });
    let link = Link {
        session_id: row.id,
        round: 0,
        position: row.chain_length + 1,
        previous: row.chain_hash.take(),
    };
    if let Some(last) = provenance::ops::record_chain(tx, ctx, link, records)? {
        (row.chain_length, row.chain_hash) = (last.record.position, Some(last.hash));
    }
    Ok(())
}
