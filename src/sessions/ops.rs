//! What is done with sessions. Taking a round is in [`rounds`].

use uuid::Uuid;

use chrono::{DateTime, Utc};
use serde_json::{Value, json};

use super::declaration::{Declaration, INSTRUCTIONS, Terms};
use super::event::Happened;
use super::machine::{self, Effect, Event, Refusal, State, Status};
use super::prompt::{self, PromptItem};
use super::store::stand::Happening;
use super::store::{self, Entry, Lock, SessionRow, SummaryRow};
use super::view::{
    ContextItem, ContextView, ForgetView, MAX_CONTEXT, PromptView, SessionSummary, SessionView, etag,
};
use super::{fields, render};
use crate::corpora::pack::packed_text;
use crate::ctx::{Ctx, TenantId};
use crate::db::Tx;
use crate::error::{Code, Error, FieldError, Result};
use crate::item::ItemStatus;
use crate::path::FolderPath;
use crate::precondition::Preconditions;
use crate::retrieval::found::{After, Window};
use crate::retrieval::ops::Declared;
use crate::retrieval::request::Request;
use crate::retrieval::view::ItemView;
use crate::routes::route::RouteRef;
use crate::{retrieval, slates};

pub mod calls;
pub mod events;
pub mod prefetch;
pub mod rounds;
pub mod running;
pub mod slots;
pub mod tools;

/// The most paths that `forget` may name.
pub const MAX_PATHS: usize = 1000;

/// What a session is opened with.
#[derive(Debug, Clone, PartialEq)]
pub struct NewSession {
    /// The declaration; [`Declaration::parse`] checks it.
    pub retrieve: Value,
    /// Named texts that open the prompt; [`fields::parse`] checks them.
    pub fields: Option<Value>,
    /// What the session is for: a text or an object.
    pub goal: Option<Value>,
    /// The route that it is on.
    pub route: Option<RouteRef>,
}

/// Nothing that a watcher is told of, and nothing that enters the context.
const NOTHING: (&[Happened], &[Entry]) = (&[], &[]);

/// A session as it was loaded.
struct Loaded {
    row: SessionRow,
    terms: Terms,
    state: State,
}

/// Opens a session for which nothing is packed. On the way, sessions that the tenant has kept for long enough are deleted.
///
/// # Errors
/// [`Code::Invalid`] by pointer; [`Code::NotFound`] for a slate that is not there.
pub fn open(tx: &mut Tx, ctx: &Ctx, new: &NewSession) -> Result<SessionView> {
    let session = checked(tx, ctx, new)?;
    store::insert(tx, &session.row)?;
    view(tx, session)
}

/// The session that is to be opened, which nobody knows of yet.
fn checked(tx: &mut Tx, ctx: &Ctx, new: &NewSession) -> Result<Loaded> {
    let mut errors = Vec::new();
    let declaration = Declaration::parse(&new.retrieve).map_err(|wrong| errors.extend(wrong)).ok();
    if let Some(fields) = &new.fields {
        errors.extend(fields::parse(fields, "/fields").err().unwrap_or_default());
    }
    if new.goal.as_ref().is_some_and(|goal| !goal.is_string() && !goal.is_object()) {
        errors.push(FieldError::new("/goal", "must be a text or an object"));
    }
    let Some(declaration) = declaration.filter(|_| errors.is_empty()) else {
        return Err(Error::invalid(errors));
    };
    let declared = Declared { slate: &declaration.slate, folder: &declaration.folder, recursive: false };
    let Some(opened) = retrieval::ops::open(tx, ctx, declared, &Request::default(), false)? else {
        slates::ops::get(tx, ctx, &declaration.slate)?;
        return Err(Error::invalid_at(
            "/retrieve/to/folder",
            "there is no such folder in the slate, or none that may be read",
        ));
    };
    let scope = opened.scope();
    let mut stored = declaration.to_store(&new.retrieve);
    if declaration.instructions {
        let (slate, folder) = (scope.slate.as_str(), scope.folder.as_str());
        stored[INSTRUCTIONS] = json!(tools::instructions(tx, ctx, slate, folder, &stored)?);
    }
    let state = State::new(declaration.max_rounds);
    let row = SessionRow {
        id: Uuid::now_v7(),
        slate: scope.slate.clone(),
        folder: scope.folder.as_str().to_owned(),
        declaration: stored,
        fields: new.fields.clone().unwrap_or_else(|| json!({})),
        goal: new.goal.clone(),
        route: new.route.as_ref().map(|route| json!(route)),
        working: json!({"slots": {}, "notes": []}),
        status: state.status.as_str().into(),
        round: 0,
        epoch: 1,
        shown_bytes: 0,
        answer: None,
        forced: false,
        failure: None,
        chain_length: 0,
        chain_hash: None,
        revision: 1,
        created_at: ctx.now,
        updated_at: ctx.now,
        finished_at: None,
        is_run: false,
    };
    loaded(row)
}

/// Deletes sessions that have outlived the tenant's retention, at most `limit`; their records and seals stay. Tells how
/// many there were.
///
/// # Errors
/// Those of the database.
pub fn sweep(tx: &mut Tx, now: DateTime<Utc>, limit: i64) -> Result<usize> {
    let expired = store::expired(tx, now, limit)?;
    if !expired.is_empty() {
        store::delete(tx, &expired)?;
    }
    Ok(expired.len())
}

/// The session, as it is told of.
///
/// # Errors
/// [`Code::NotFound`], also for a session of a slate that the key may not touch.
pub fn get(tx: &mut Tx, ctx: &Ctx, id: Uuid) -> Result<SessionView> {
    let session = load(tx, ctx, id, Lock::Share)?;
    view(tx, session)
}

/// Sessions of the slates that the key may touch, newest first; those opened before `before`, at most `limit`.
///
/// # Errors
/// Those of the database.
pub fn list(
    tx: &mut Tx,
    ctx: &Ctx,
    status: Option<Status>,
    before: Option<Uuid>,
    limit: i64,
) -> Result<Vec<SessionSummary>> {
    let rows = store::list(tx, status, ctx.slates.as_deref(), before, limit)?;
    rows.into_iter().map(summary).collect()
}

/// Bytes of what the prompt, or the rounds, of a session are put together from.
///
/// # Errors
/// [`Code::NotFound`].
pub fn weight(tx: &mut Tx, ctx: &Ctx, id: Uuid) -> Result<u64> {
    let session = load(tx, ctx, id, Lock::None)?;
    let rounds = store::weight(tx, id)?;
    Ok(u64::try_from(session.row.shown_bytes.saturating_add(rounds)).unwrap_or_default())
}

/// The prompt of the next call; of a finished session, the one that its last call was given, or would have been.
///
/// # Errors
/// [`Code::NotFound`]; [`Code::PromptUnavailable`] for a session that failed.
pub fn prompt(tx: &mut Tx, ctx: &Ctx, id: Uuid) -> Result<PromptView> {
    let Loaded { row, terms, state } = load(tx, ctx, id, Lock::Share)?;
    if state.status == Status::Failed {
        return Err(Error::new(Code::PromptUnavailable, "the session failed; its `failure` tells why"));
    }
    let past = store::rounds_of_epoch(tx, row.id, row.epoch)?;
    let first = past.first().map_or(i32::MAX, |round| round.number);
    let carried = store::context(tx, &row, Some(first), None)?;
    let (records, asides) = rounds::records(tx, &past)?;
    let pairs: Vec<_> = carried.iter().map(|shown| (shown.file_id, shown.version)).collect();
    let mut versions = rounds::held(tx, &records, &pairs, ctx.now)?;
    let carried: Vec<_> = (carried.into_iter())
        .filter_map(|shown| {
            let held = versions.get_mut(&(shown.file_id, shown.version))?;
            let text = render::text(held, shown.size);
            Some((render::relative(&row.folder, &shown.path).to_owned(), shown.version, text))
        })
        .collect();
    let given: Vec<ItemView> = (records.iter().zip(&asides))
        .flat_map(|(record, aside)| render::items(record, &mut versions, aside))
        .collect();
    let carried = carried.iter().map(|(path, version, text)| PromptItem {
        path,
        version: Some(*version),
        status: ItemStatus::Fetched.as_str(),
        content: text.as_str().into(),
    });
    let fields = fields::parse(&row.fields, "/fields").map_err(Error::invalid)?;
    let answered = state.status == Status::Answered;
    // Of a finished session, what its last call was given.
    let last = if answered { row.forced } else { state.round >= terms.max_rounds };
    let prompt = prompt::assemble(
        &fields,
        packed_text(&row.working).as_deref(),
        &terms.as_field,
        carried.chain(given.iter().map(render::in_prompt)),
        last,
    );
    Ok(PromptView {
        prompt: match &terms.instructions {
            Some(text) => prompt::with_instructions(text, &prompt),
            None => prompt,
        },
        round: if answered { state.round } else { state.round + 1 },
        r#final: last,
    })
}

/// Ends a session. One that was cancelled before stays as it is.
///
/// # Errors
/// [`Code::NotFound`]; [`Code::SessionFinished`]; [`Code::PreconditionFailed`].
pub fn cancel(tx: &mut Tx, ctx: &Ctx, id: Uuid, conditions: &Preconditions) -> Result<SessionView> {
    let mut session = load(tx, ctx, id, Lock::Update)?;
    conditions.check_write(Some(&etag(id, session.row.revision)))?;
    let (state, effects) = machine::step(session.state, Event::Cancel).map_err(refusal)?;
    session.state = state;
    if !effects.is_empty() {
        commit(tx, &mut session, &effects, NOTHING, ctx.now)?;
    }
    view(tx, session)
}

/// Begins a new context epoch, in which the files at `paths` (current paths, relative to the declared folder; all files,
/// where none are given) are no longer in context. What names nothing there is passed over.
///
/// # Errors
/// [`Code::NotFound`]; [`Code::SessionFinished`]; [`Code::PreconditionFailed`].
pub fn forget(
    tx: &mut Tx,
    ctx: &Ctx,
    id: Uuid,
    paths: Option<&[String]>,
    conditions: &Preconditions,
) -> Result<ForgetView> {
    if paths.is_some_and(|paths| paths.len() > MAX_PATHS) {
        return Err(Error::invalid_at("/paths", format!("may name at most {MAX_PATHS} paths")));
    }
    let mut session = load(tx, ctx, id, Lock::Update)?;
    conditions.check_write(Some(&etag(id, session.row.revision)))?;
    let (state, effects) = machine::step(session.state, Event::Forget).map_err(refusal)?;
    let files = paths.map(|paths| files_at(tx, ctx, &session.row, paths)).transpose()?;
    let forgotten = store::count_context(tx, &session.row, files.as_deref())?;
    store::turn(tx, &session.row, number(state.epoch), files.as_deref())?;
    session.state = state;
    let told = Happened::Forgotten { epoch: state.epoch, forgotten };
    commit(tx, &mut session, &effects, (&[told], &[]), ctx.now)?;
    Ok(ForgetView { epoch: state.epoch, forgotten })
}

/// Deletes a session, its rounds and its context. Its records stay, sealed.
///
/// # Errors
/// [`Code::NotFound`]; [`Code::PreconditionFailed`].
pub fn delete(tx: &mut Tx, ctx: &Ctx, id: Uuid, conditions: &Preconditions) -> Result<()> {
    let session = load(tx, ctx, id, Lock::Update)?;
    conditions.check_write(Some(&etag(id, session.row.revision)))?;
    if !session.state.status.is_finished() {
        store::seal(tx, &session.row, ctx.now)?;
    }
    store::delete(tx, &[id])
}

/// The numbers of the files at these current paths, relative to the declared folder.
fn files_at(tx: &mut Tx, ctx: &Ctx, row: &SessionRow, paths: &[String]) -> Result<Vec<i64>> {
    let folder = FolderPath::parse(&row.folder).map_err(Error::internal)?;
    let declared = Declared { slate: &row.slate, folder: &folder, recursive: false };
    let request = Request { files: Some(paths.to_vec()), ..Request::default() };
    let Some(opened) = retrieval::ops::open(tx, ctx, declared, &request, false)? else {
        return Ok(Vec::new());
    };
    let window =
        Window { after: After::Asked(0), limit: paths.len(), count: false, ahead: 0, contents: false };
    let found = retrieval::ops::search(tx, opened, &request, &window)?;
    Ok(found.items.iter().filter_map(|placed| Some(placed.item.file()?.file_id)).collect())
}

fn load(tx: &mut Tx, ctx: &Ctx, id: Uuid, lock: Lock) -> Result<Loaded> {
    let row = store::find(tx, id, lock)?.filter(|row| ctx.sees(&row.slate)).ok_or_else(Error::not_found)?;
    loaded(row)
}

fn loaded(row: SessionRow) -> Result<Loaded> {
    let (terms, status) = (terms(&row.declaration)?, status(&row.status)?);
    let (round, epoch) = (row.round.unsigned_abs(), row.epoch.unsigned_abs());
    let state = State { status, round, max_rounds: terms.max_rounds, epoch };
    Ok(Loaded { row, terms, state })
}

fn terms(declaration: &Value) -> Result<Terms> {
    serde::Deserialize::deserialize(declaration).map_err(Error::internal)
}

fn status(name: &str) -> Result<Status> {
    Status::from_name(name).ok_or_else(|| Error::internal(anyhow::anyhow!("the status {name} is unknown")))
}

/// Stores the state that an event led to, with what happened and what entered the context on the way. All effects but
/// [`Effect::Seal`] have been performed.
fn commit(
    tx: &mut Tx,
    session: &mut Loaded,
    effects: &[Effect],
    (happened, entries): (&[Happened], &[Entry]),
    now: DateTime<Utc>,
) -> Result<()> {
    let Loaded { row, state, .. } = session;
    (row.round, row.epoch) = (number(state.round), number(state.epoch));
    row.status = state.status.as_str().into();
    let mut finished = None;
    if effects.contains(&Effect::Seal) {
        row.finished_at = Some(now);
        store::seal(tx, row, now)?;
        finished = Some(Happened::Finished { status: state.status, failure: row.failure.clone() });
    }
    let event = |happened: &Happened| Ok((happened.kind(), serde_json::to_value(happened)?));
    let events: Result<Vec<_>, serde_json::Error> = happened.iter().chain(&finished).map(event).collect();
    let topic = events::topic(TenantId(tx.tenant()), row.id);
    let happening =
        Happening { entries, round: row.round, events: &events.map_err(Error::internal)?, topic: &topic };
    store::stand::stand(tx, row, &happening, now)
}

fn refusal(refusal: Refusal) -> Error {
    let code = match refusal {
        Refusal::SessionFinished => Code::SessionFinished,
        Refusal::RoundNotNext { .. } => Code::RoundConflict,
    };
    Error::new(code, refusal.to_string())
}

/// Rounds and epochs as the database counts them. Rounds end at 101; two billion calls of `forget` are out of reach.
fn number(count: u32) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

fn view(tx: &mut Tx, session: Loaded) -> Result<SessionView> {
    let Loaded { row, terms, state } = session;
    // Before the first round, nothing is in context.
    let (files, shown) = match row.round {
        0 => (0, Vec::new()),
        _ => (store::count_context(tx, &row, None)?, store::context(tx, &row, None, Some(MAX_CONTEXT))?),
    };
    let items = shown.into_iter().map(|shown| ContextItem {
        path: render::relative(&row.folder, &shown.path).to_owned(),
        version: shown.version,
        round: shown.round.unsigned_abs(),
    });
    Ok(SessionView {
        context: ContextView { files, items: items.collect() },
        session_id: row.id,
        status: state.status,
        round: state.round,
        next: state.status.next(),
        epoch: state.epoch,
        slate: row.slate,
        folder: row.folder,
        retrieve: given(row.declaration),
        limits: terms.limits,
        shown_bytes: row.shown_bytes,
        fields: row.fields,
        goal: row.goal,
        route: row.route,
        working: row.working,
        forced: row.answer.is_some().then_some(row.forced),
        answer: row.answer,
        failure: row.failure,
        is_run: row.is_run,
        created_at: row.created_at,
        updated_at: row.updated_at,
        finished_at: row.finished_at,
        revision: row.revision,
    })
}

/// A declaration as it was given, with all its limits.
fn given(mut stored: Value) -> Value {
    if let Some(members) = stored.as_object_mut() {
        members.shift_remove(INSTRUCTIONS);
    }
    stored
}

fn summary(row: SummaryRow) -> Result<SessionSummary> {
    let status = status(&row.status)?;
    Ok(SessionSummary {
        session_id: row.id,
        status,
        round: row.round.unsigned_abs(),
        max_rounds: terms(&row.declaration)?.max_rounds,
        next: status.next(),
        slate: row.slate,
        folder: row.folder,
        created_at: row.created_at,
        updated_at: row.updated_at,
        finished_at: row.finished_at,
    })
}
