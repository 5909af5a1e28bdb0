//! Taking a round, and rendering those that were taken (retrieval semantics §7.3 to §7.6).

use std::collections::{BTreeMap, HashMap};

use chrono::{DateTime, Utc};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::{Loaded, commit, load, loaded, number, refusal};
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::{Code, Error, Result};
use crate::item::ItemStatus;
use crate::path::FolderPath;
use crate::provenance::ops::{Link, NewRecord};
use crate::provenance::record::{Kind, Record};
use crate::retrieval::budget::{self, Budget, Candidate, Context, Shown, Verdict};
use crate::retrieval::found::{After, FoundFile, FoundItem, Listing, Scope, Window};
use crate::retrieval::ops::Declared;
use crate::retrieval::request::{self, Parsed};
use crate::retrieval::view::ItemView;
use crate::sessions::event::Happened;
use crate::sessions::machine::{self, Effect, Event, Status};
use crate::sessions::output::{AnswerReason, Decision, DecisionKind, decide};
use crate::sessions::render::{self, Aside, Held, Index, Repeat, Versions};
use crate::sessions::schema::compile_request_match;
use crate::sessions::store::{self, Entry, Known, Lock, RoundRow, SessionRow};
use crate::sessions::view::{Omitted, PastRound, RoundView};
use crate::{provenance, retrieval};

/// Bytes of contents after which a page of rounds ends early.
const PAGE_BYTES: i64 = 16 << 20;

/// All that a round shows: a thousand items at most.
const WINDOW: Window = Window { after: After::Asked(0), limit: 1000, count: true, ahead: 0, contents: true };

/// The output of a call, submitted as a round.
#[derive(Debug, Clone, PartialEq)]
pub struct NewRound {
    /// What the model put out: a JSON value, or text.
    pub output: Value,
    /// The round that it is meant to be; the next one, where it is not given.
    pub round: Option<u32>,
    /// Makes a retry safe.
    pub key: Option<String>,
}

/// Who made the call that a round is the output of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// A client.
    Client,
    /// The service itself.
    Service,
    /// The service itself, for a model that called a tool, which has been called.
    Tool,
    /// A client, which says that the output is the answer.
    Answer,
}

/// Takes a round of a client's, or answers again what came of it when it was taken before.
///
/// # Errors
/// [`Code::NotFound`]; [`Code::SessionFinished`]; [`Code::RoundConflict`]; [`Code::IdempotencyMismatch`];
/// [`Code::RunActive`] where the service makes the calls.
pub fn submit(tx: &mut Tx, ctx: &Ctx, id: Uuid, new: &NewRound) -> Result<RoundView> {
    submit_by(tx, ctx, id, new, By::Client)
}

/// The same for a round of either.
///
/// # Errors
/// As [`submit`].
pub fn submit_by(tx: &mut Tx, ctx: &Ctx, id: Uuid, new: &NewRound, by: By) -> Result<RoundView> {
    let found = store::find_for_round(tx, id, new.key.as_deref())?;
    let (found, of_key) = found.filter(|(row, _)| ctx.sees(&row.slate)).ok_or_else(Error::not_found)?;
    let mut session = loaded(found)?;
    if let Some(taken) = taken(tx, &session.row, new, of_key)? {
        return rendered(tx, taken, ctx.now);
    }
    if session.row.is_run && matches!(by, By::Client | By::Answer) && !session.state.status.is_finished() {
        return Err(Error::new(Code::RunActive, "cancel the session to end its run"));
    }
    let schema = compile_request_match(&session.terms.request_match, "/retrieve/requestMatch")
        .map_err(|wrong| Error::internal(anyhow::anyhow!("a stored schema: {}", wrong.detail)))?;
    let decision = match by {
        By::Tool => Decision::Tool,
        By::Answer => Decision::Answer(AnswerReason::Said),
        By::Client | By::Service => decide(&new.output, &schema),
    };
    let event = Event::Round { number: new.round, decision: decision.kind() };
    let (state, effects) = machine::step(session.state, event).map_err(refusal)?;
    session.state = state;
    let mut row = RoundRow {
        session_id: id,
        number: number(state.round),
        epoch: number(state.epoch),
        output: new.output.clone(),
        idempotency_key: new.key.clone(),
        decision: DecisionKind::Answer.as_str().into(),
        reason: None,
        forced: false,
        record_id: None,
        ignored: json!([]),
        errors: json!([]),
        listings: json!({}),
        hints: json!({}),
        repeats: json!({}),
        truncated: false,
        omitted_files: 0,
        omitted_bytes: 0,
        total: None,
        status: state.status.as_str().into(),
        created_at: ctx.now,
    };
    if let Decision::Answer(reason) = &decision {
        row.reason = Some(reason.as_str().into());
    }
    if decision == Decision::Tool && !state.status.is_finished() {
        row.decision = DecisionKind::Tool.as_str().into();
    }
    let mut fetched = Fetched::default();
    for effect in &effects {
        match effect {
            Effect::Fetch { .. } => {
                if let Decision::Retrieval(members) = &decision {
                    row.decision = DecisionKind::Retrieval.as_str().into();
                    let parsed = request::parse(members, &schema.granted, "").shape_as_errors();
                    fetched = fetch(tx, ctx, &mut session, &mut row, members.clone(), parsed)?;
                }
            }
            Effect::RecordAnswer { forced, .. } => {
                row.forced = *forced;
                (session.row.answer, session.row.forced) = (Some(new.output.clone()), *forced);
            }
            // Stored with the session.
            Effect::BeginEpoch { .. } | Effect::Seal => {}
        }
    }
    store::insert_round(tx, &row)?;
    let view = view(row, fetched.items)?;
    commit(tx, &mut session, &effects, (&[Happened::round(&view)], &fetched.entries), ctx.now)?;
    Ok(view)
}

/// What a round gives, and what enters the context by it.
#[derive(Default)]
struct Fetched {
    items: Vec<ItemView>,
    entries: Vec<Entry>,
}

/// Performs [`Effect::Fetch`]: searches, gives what is not in context and within the budget, and records it.
fn fetch(
    tx: &mut Tx,
    ctx: &Ctx,
    session: &mut Loaded,
    row: &mut RoundRow,
    members: Map<String, Value>,
    parsed: Parsed,
) -> Result<Fetched> {
    let Loaded { row: session, terms, .. } = session;
    let folder = FolderPath::parse(&session.folder).map_err(Error::internal)?;
    let declared = Declared { slate: &session.slate, folder: &folder, recursive: terms.recursive };
    let (scope, mut found) = match retrieval::ops::open(tx, ctx, declared, &parsed.request, true)? {
        Some(opened) => {
            (opened.scope().clone(), retrieval::ops::search(tx, opened, &parsed.request, &WINDOW)?)
        }
        None => (Scope::nowhere(&session.slate, folder), retrieval::ops::nothing(&parsed.request)),
    };

    let files: Vec<&FoundFile> = found.items.iter().filter_map(|placed| placed.item.file()).collect();
    let ids: Vec<i64> = files.iter().map(|file| file.file_id).collect();
    let known = store::in_context(tx, session, &ids)?;
    let known: HashMap<i64, Known> = known.into_iter().map(|known| (known.file.file_id, known)).collect();
    let shown = (known.iter())
        .map(|(id, Known { file, .. })| (*id, Shown { version: file.version, sha256: file.sha256.clone() }));
    let context = Context { shown: shown.collect(), refetch_changed: terms.refetch_changed };
    let candidates: Vec<Candidate> = (files.iter())
        .map(|file| Candidate {
            file_id: file.file_id,
            version: file.version,
            sha256: &file.sha256,
            // What stands for a binary file costs nothing.
            cost: if file.is_text { file.size } else { 0 },
        })
        .collect();
    let mut budget = Budget::of_round(terms.limits, session.shown_bytes);
    let mut verdicts = budget::decide(&candidates, &context, &mut budget).into_iter();

    let mut aside = Aside::default();
    let mut entries = Vec::new();
    let mut versions = Versions::new();
    let mut wanted = Vec::new();
    let mut omitted = found.beyond;
    let mut items = Vec::with_capacity(found.items.len());
    for (n, placed) in (1..).zip(&found.items) {
        let status = match &placed.item {
            FoundItem::Missing(missing) => {
                aside.hints.extend(missing.hint.clone().map(|hint| (n, hint)));
                ItemStatus::NotFound
            }
            FoundItem::Listing(listing) => {
                let Listing { entries, truncated, .. } = listing.clone();
                row.truncated |= truncated;
                aside.listings.insert(n, Index { entries, truncated });
                ItemStatus::Listing
            }
            FoundItem::File(file) => match verdicts.next() {
                Some(Verdict::Fetched) => {
                    let slot = if terms.refetch_changed { file.version } else { 0 };
                    let item = i32::try_from(n).unwrap_or(i32::MAX);
                    entries.push(Entry { file_id: file.file_id, slot, version: file.version, item });
                    session.shown_bytes += if file.is_text { file.size } else { 0 };
                    wanted.push(file);
                    ItemStatus::Fetched
                }
                Some(Verdict::AlreadyInContext { .. }) => ItemStatus::AlreadyInContext,
                Some(Verdict::Omitted) | None => {
                    omitted.files += 1;
                    omitted.bytes += file.size;
                    ItemStatus::Omitted
                }
            },
        };
        let mut item = placed.item.record(&scope, status, ctx.now);
        if let FoundItem::File(file) = &placed.item {
            let held =
                Held { media_type: file.media_type.clone(), is_text: file.is_text, gone: false, data: None };
            versions.insert((file.file_id, file.version), held);
        }
        if let (ItemStatus::AlreadyInContext, Some(head)) = (status, &item.file)
            && let Some(Known { file: known, media_type, is_text }) = known.get(&head.file_id)
        {
            let held = Held { media_type: media_type.clone(), is_text: *is_text, gone: false, data: None };
            versions.insert((known.file_id, known.version), held);
            let repeat = Repeat {
                path: (head.path != known.path).then(|| head.path.clone()),
                head_version: (head.sha256 != known.sha256).then_some(head.version),
            };
            if repeat != Repeat::default() {
                aside.repeats.insert(n, repeat);
            }
            // What the model has is what is cited.
            item.file = Some(known.clone());
        }
        items.push(item);
    }
    let texts: Vec<&FoundFile> = wanted.into_iter().filter(|file| file.is_text).collect();
    let hashes: Vec<&[u8]> = texts.iter().map(|file| &file.sha256[..]).collect();
    retrieval::ops::read_contents(tx, &hashes, &mut found.contents)?;
    for file in texts {
        if let Some(held) = versions.get_mut(&(file.file_id, file.version)) {
            held.data = found.contents.get(&file.sha256).cloned();
        }
    }

    let request = Value::Object(members);
    let link = Link {
        session_id: session.id,
        round: row.number,
        position: session.chain_length + 1,
        previous: session.chain_hash.take(),
    };
    let record = NewRecord {
        kind: Kind::Round,
        link: Some(link),
        slate: Some(&session.slate),
        folder: Some(&session.folder),
        recursive: terms.recursive,
        request: Some(&request),
        items,
    };
    let recorded = provenance::ops::record(tx, ctx, record)?;
    (session.chain_length, session.chain_hash) = (recorded.record.position, Some(recorded.hash));

    row.record_id = Some(recorded.record.id);
    row.ignored = json!(parsed.ignored);
    row.errors = json!(parsed.errors);
    row.listings = json!(aside.listings);
    row.hints = json!(aside.hints);
    row.repeats = json!(aside.repeats);
    row.truncated |= found.next.is_some() || omitted.files > 0;
    (row.omitted_files, row.omitted_bytes) = (omitted.files, omitted.bytes);
    row.total = found.total;
    Ok(Fetched { items: render::items(&recorded.record, &mut versions, &aside), entries })
}

/// The round that this was taken as before.
pub(super) fn taken(
    tx: &mut Tx,
    session: &SessionRow,
    new: &NewRound,
    of_key: Option<i32>,
) -> Result<Option<RoundRow>> {
    if let Some(number) = of_key
        && let Some(row) = store::round(tx, session.id, number)?
    {
        let same =
            row.output == new.output && new.round.is_none_or(|round| super::number(round) == row.number);
        return match same {
            true => Ok(Some(row)),
            false => Err(Error::new(
                Code::IdempotencyMismatch,
                "the Idempotency-Key was used for a round with another output",
            )),
        };
    }
    let Some(round) = new.round.map(number).filter(|round| *round <= session.round) else { return Ok(None) };
    match store::round(tx, session.id, round)? {
        Some(row) if row.output == new.output => Ok(Some(row)),
        Some(_) => {
            Err(Error::new(Code::RoundConflict, format!("round {round} was taken with another output")))
        }
        None => Ok(None),
    }
}

/// Rounds after number `after`, in order, with what came of them; at most `limit`. Past 16 MiB of contents the page ends
/// early, which the flag tells.
///
/// # Errors
/// [`Code::NotFound`].
pub fn list(tx: &mut Tx, ctx: &Ctx, id: Uuid, after: i32, limit: usize) -> Result<(Vec<PastRound>, bool)> {
    let session = load(tx, ctx, id, Lock::None)?;
    let (mut page, mut bytes, mut after) = (Vec::new(), 0, after);
    // There are 101 rounds at most, and what they show may be large: they are read one by one.
    while let Some(row) = store::rounds(tx, session.row.id, after, 1)?.pop() {
        if page.len() == limit || bytes > PAGE_BYTES {
            return Ok((page, true));
        }
        after = row.number;
        let output = row.output.clone();
        let result = rendered(tx, row, ctx.now)?;
        let given = result.items.iter().filter(|item| item.status == ItemStatus::Fetched);
        bytes += output.to_string().len() as i64 + given.filter_map(|item| item.size).sum::<i64>();
        page.push(PastRound { output, result });
    }
    Ok((page, false))
}

/// What came of a round, rendered anew.
pub(super) fn rendered(tx: &mut Tx, row: RoundRow, now: DateTime<Utc>) -> Result<RoundView> {
    let items = match row.record_id {
        None => Vec::new(),
        Some(id) => {
            let record = provenance::ops::load(tx, id)?;
            let mut versions = held(tx, std::slice::from_ref(&record), &[], now)?;
            render::items(&record, &mut versions, &aside(&row)?)
        }
    };
    view(row, items)
}

fn view(row: RoundRow, items: Vec<ItemView>) -> Result<RoundView> {
    let unknown = |what: &str| Error::internal(anyhow::anyhow!("a round holds an unknown {what}"));
    let status = Status::from_name(&row.status).ok_or_else(|| unknown("status"))?;
    let decision = DecisionKind::from_name(&row.decision).ok_or_else(|| unknown("decision"))?;
    let answered = decision == DecisionKind::Answer;
    Ok(RoundView {
        round: row.number.unsigned_abs(),
        epoch: row.epoch.unsigned_abs(),
        decision,
        reason: row.reason.as_deref().and_then(AnswerReason::from_name),
        items,
        truncated: row.truncated,
        omitted: Omitted { files: row.omitted_files, bytes: row.omitted_bytes },
        total: row.total,
        ignored: read(row.ignored)?,
        errors: read(row.errors)?,
        status,
        next: status.next(),
        answer: answered.then_some(row.output),
        forced: answered.then_some(row.forced),
        created_at: row.created_at,
    })
}

/// The records of those of the rounds that have one, and what the rounds keep beside them.
pub(super) fn records(tx: &mut Tx, rounds: &[RoundRow]) -> Result<(Vec<Record>, Vec<Aside>)> {
    let mut both = (Vec::new(), Vec::new());
    for row in rounds {
        if let Some(id) = row.record_id {
            both.0.push(provenance::ops::load(tx, id)?);
            both.1.push(aside(row)?);
        }
    }
    Ok(both)
}

/// What a round keeps beside its record.
fn aside(row: &RoundRow) -> Result<Aside> {
    Ok(Aside {
        listings: read(row.listings.clone())?,
        hints: read(row.hints.clone())?,
        repeats: read(row.repeats.clone())?,
    })
}

/// The versions that these records and pairs name, with the bytes that they show.
pub(super) fn held(
    tx: &mut Tx,
    records: &[Record],
    more: &[(i64, i64)],
    now: DateTime<Utc>,
) -> Result<Versions> {
    let fetched = ItemStatus::Fetched.code();
    let mut wanted: BTreeMap<(i64, i64), bool> = more.iter().map(|pair| (*pair, true)).collect();
    for item in records.iter().flat_map(|record| &record.items) {
        if let Some(file) = &item.file {
            *wanted.entry((file.file_id, file.version)).or_default() |= item.status == fetched;
        }
    }
    let (files, numbers): (Vec<i64>, Vec<i64>) = wanted.keys().copied().unzip();
    let shown: Vec<bool> = wanted.into_values().collect();
    let rows = store::versions(tx, &files, &numbers, &shown, now)?;
    let held = rows.into_iter().map(|row| {
        let held = Held { media_type: row.media_type, is_text: row.is_text, gone: row.gone, data: row.data };
        ((row.file_id, row.version), held)
    });
    Ok(held.collect())
}

fn read<T: DeserializeOwned>(value: Value) -> Result<T> {
    serde_json::from_value(value).map_err(Error::internal)
}
