//! What is done with runs: [`start`] and [`get`] for whoever asked, and the steps that a server makes of one.
//!
//! The session's row is locked before that of the queue, and both before the day's.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::{Value, json};
use url::Url;
use uuid::Uuid;

use super::chat::{self, Form, Said, Shown};
use super::machine::{self, Reason, Step, Trouble};
use super::model::Model;
use super::spending::{self, Reached};
use super::store::{self, RunRow, Spend};
use super::view::{CallView, RunStatus, RunView, Usage};
use crate::corpora::entry::Id;
use crate::ctx::{Ctx, Scope, TenantId};
use crate::db::Tx;
use crate::error::{Code, Error, Result};
use crate::sessions::event::Happened;
use crate::sessions::machine::Status;
use crate::sessions::ops::rounds::{self, By, NewRound};
use crate::sessions::ops::running::{self, Standing};
use crate::sessions::ops::{events, prompt};
use crate::tools::call::NewCall;
use crate::tools::ops::{self as tools, Begun, Ready};

/// The topic that is notified when a run is to be taken.
pub const QUEUED: &str = "runs";

/// How long a server has a run before another may take it, unless it says that it still lives.
pub const LEASE: Duration = Duration::from_secs(7);

/// A run that a server has taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Job {
    /// The tenant.
    pub tenant: TenantId,
    /// The session.
    pub session: Uuid,
    /// The server.
    pub owner: Uuid,
}

/// A call of a model that is to be made.
#[derive(Debug, Clone)]
pub struct Call {
    /// The round that its answer is for.
    pub round: u32,
    /// Where to.
    pub url: Url,
    /// The name of the secret to send, where there is one.
    pub secret: Option<Id>,
    /// Who asked for the run.
    pub caller: Ctx,
    /// What to send.
    pub body: Value,
    /// The capabilities that the model may call, or could while there were rounds left.
    pub tools: Vec<String>,
}

/// A tool that the model called, which is to be called.
#[derive(Debug, Clone)]
pub struct Use {
    /// The round that it is.
    pub round: u32,
    /// Who asked for the run.
    pub caller: Ctx,
    /// The model's output.
    output: Value,
}

impl Use {
    /// Makes a tool that keeps such keys do a call that is made again, after a crash, only once.
    pub fn key(&self, job: &Job) -> String {
        format!("{}.{}", job.session, self.round)
    }

    fn capability_id(&self) -> &str {
        self.output["tool"].as_str().unwrap_or_default()
    }
}

/// What a server does next for a run.
#[derive(Debug)]
pub enum Work {
    /// Ask the model.
    Ask(Box<Call>),
    /// Call a tool.
    Use(Use),
}

/// Makes the service the caller of the session's model.
///
/// # Errors
/// [`Code::Invalid`]; [`Code::NotFound`]; [`Code::SessionFinished`]; [`Code::RunActive`]; [`Code::LimitReached`].
pub fn start(tx: &mut Tx, ctx: &Ctx, id: Uuid, model: &Model) -> Result<RunView> {
    model.check()?;
    running::begin(tx, ctx, id, &model.name)?;
    let limits = store::limits(tx, true)?;
    let (queued, spent) = (store::count_queued(tx)?, store::spent(tx, ctx.now.date_naive())?);
    spending::check_start(limits, queued, spent, ctx.now).map_err(|Reached { detail, seconds }| Error {
        retry_after: Some(seconds),
        ..Error::new(Code::LimitReached, detail)
    })?;
    let row = RunRow {
        session_id: id,
        key_id: ctx.key_id,
        model: serde_json::to_value(model).map_err(Error::internal)?,
        attempts: 0,
        trouble: None,
        created_at: ctx.now,
    };
    store::insert(tx, &row, ctx.now)?;
    tx.notify(QUEUED)?;
    get(tx, ctx, id)
}

/// The run of a session.
///
/// # Errors
/// [`Code::NotFound`], also for a session that is not run.
pub fn get(tx: &mut Tx, ctx: &Ctx, id: Uuid) -> Result<RunView> {
    // Each statement sees what was committed before it. The queue's row is written last, and so is read first:
    // what it tells has happened is in all that is read after it.
    let queued = store::queued(tx, id)?;
    let row = store::find(tx, id)?.ok_or_else(Error::not_found)?;
    let Standing { status, round, .. } = running::glance(tx, ctx, id)?;
    let queued = queued.filter(|_| !status.is_finished());
    let calls = store::answers(tx, id)?.into_iter().map(|row| CallView {
        round: row.round.unsigned_abs(),
        form: row.form,
        usage: Usage { prompt_tokens: row.prompt_tokens, completion_tokens: row.completion_tokens },
        received_at: row.received_at,
    });
    let calls: Vec<CallView> = calls.collect();
    Ok(RunView {
        session_id: id,
        status: match queued {
            None => RunStatus::Ended,
            Some(queue) if queue.lease_until.is_some_and(|until| until > ctx.now) => RunStatus::Running,
            Some(queue) if queue.next_at > ctx.now => RunStatus::Waiting,
            Some(_) => RunStatus::Queued,
        },
        session_status: status,
        round,
        model: model(&row)?,
        usage: Usage::sum(calls.iter().map(|call| call.usage)),
        calls,
        attempts: row.attempts.unsigned_abs(),
        trouble: row.trouble,
        next_at: queued.map(|queue| queue.next_at),
        created_at: row.created_at,
    })
}

/// Whether the caller's key still opens what it did when the caller began to watch.
///
/// # Errors
/// [`Code::Unauthorized`] where it does not.
pub fn check_key(tx: &mut Tx, ctx: &Ctx, now: DateTime<Utc>) -> Result<()> {
    match ctx.key_id == 0 || store::key(tx, ctx.key_id, now)?.is_some() {
        true => Ok(()),
        false => Err(Error::new(Code::Unauthorized, "the key was revoked, or has expired")),
    }
}

/// Takes runs for a server, at most `count`. For the operator's transactions, as the next two are.
///
/// # Errors
/// Those of the database.
pub fn claim(tx: &mut Tx, owner: Uuid, count: usize) -> Result<Vec<Job>> {
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    let claimed = store::claim(tx, owner, LEASE.as_secs_f64(), count)?;
    let jobs = claimed.into_iter().map(|row| Job {
        tenant: TenantId(row.tenant_id),
        session: row.session_id,
        owner,
    });
    Ok(jobs.collect())
}

/// Says that the server lives: what it has it keeps for as long again.
///
/// # Errors
/// Those of the database.
pub fn renew(tx: &mut Tx, owner: Uuid) -> Result<()> {
    store::renew(tx, owner, LEASE.as_secs_f64())
}

/// Gives all that the server has to whoever comes first.
///
/// # Errors
/// Those of the database.
pub fn release(tx: &mut Tx, owner: Uuid) -> Result<()> {
    store::release(tx, owner)?;
    tx.notify(QUEUED)
}

/// Submits answers that are stored, and says what is to be done then. `None`: there is nothing to do for this server now,
/// because the session is finished, the run is another's, or it waits.
///
/// # Errors
/// Those of submitting a round, and of the database.
pub fn advance(tx: &mut Tx, job: &Job, now: DateTime<Utc>) -> Result<Option<Work>> {
    let Some(row) = held(tx, job)? else { return Ok(None) };
    let Some(ctx) = caller(tx, job, &row, now)? else {
        let trouble =
            Trouble::new(Reason::KeyRevoked, "the key that asked for the run was revoked, or has expired");
        fail(tx, job, &trouble, now)?;
        return Ok(None);
    };
    let id = job.session;
    loop {
        let Standing { status, round, request_match } = match running::standing(tx, &ctx, id) {
            Err(error) if error.code == Code::NotFound => {
                store::dequeue(tx, id)?;
                return Ok(None);
            }
            standing => standing?,
        };
        let output = store::output(tx, id, number(round + 1))?;
        match (machine::next(status, round, output.is_some()), output) {
            (Step::Stop, _) => {
                store::dequeue(tx, id)?;
                return Ok(None);
            }
            (Step::Submit { round }, Some((output, form)))
                if form == Form::Tool.as_str() && status == Status::Open =>
            {
                return Ok(Some(Work::Use(Use { round, caller: ctx, output })));
            }
            (Step::Submit { round }, Some((output, _))) => {
                let new = NewRound { output, round: Some(round), key: None };
                rounds::submit_by(tx, &ctx, id, &new, By::Service)?;
            }
            (Step::Call { round, last }, _) => {
                if !may_call(tx, job, &row, now)? {
                    return Ok(None);
                }
                let model = model(&row)?;
                let prompt = prompt(tx, &ctx, id)?.prompt;
                let url = model.endpoint().ok_or_else(|| Error::internal(anyhow::anyhow!("a stored URL")))?;
                let tools = tools::granted(tx, &ctx, id)?;
                let past = store::past(tx, id)?;
                let shown = Shown {
                    prompt: &prompt,
                    request_match: &request_match,
                    tools: &tools,
                    past: &past,
                    last,
                };
                let body = chat::request(&model, &shown);
                let tools = tools.into_iter().map(|tool| tool.capability_id).collect();
                let call = Call { round, url, secret: model.secret, caller: ctx, body, tools };
                return Ok(Some(Work::Ask(Box::new(call))));
            }
            (Step::Submit { .. }, None) => return Err(Error::internal(anyhow::anyhow!("an answer is gone"))),
        }
    }
}

/// Begins the call of a tool, or does all of it where no other host is needed: then there is nothing to send.
///
/// # Errors
/// Those of the call; [`refuse`] tells the model of them.
pub fn begin(tx: &mut Tx, job: &Job, used: &Use) -> Result<Option<Box<Ready>>> {
    if held(tx, job)?.is_none() {
        return Ok(None);
    }
    let Value::Object(arguments) = &used.output["arguments"] else {
        return Err(Error::invalid_at("/arguments", "must be an object"));
    };
    let new = NewCall { arguments: arguments.clone(), ..NewCall::default() };
    match tools::begin(tx, &used.caller, job.session, used.capability_id(), &new)? {
        Begun::Send(ready) => Ok(Some(ready)),
        Begun::Done(called) => conclude(tx, job, used, &called.output).map(|()| None),
    }
}

/// Stores what a tool answered, and takes the round.
///
/// # Errors
/// As [`begin`].
pub fn finish(tx: &mut Tx, job: &Job, used: &Use, ready: &Ready, answer: Value) -> Result<()> {
    if held(tx, job)?.is_none() {
        return Ok(());
    }
    let called = tools::finish(tx, &used.caller, job.session, ready, answer)?;
    conclude(tx, job, used, &called.output)
}

/// Takes the round of a tool that gave nothing, so that the model is told why.
///
/// # Errors
/// Those of submitting a round.
pub fn refuse(tx: &mut Tx, job: &Job, used: &Use, error: &Error) -> Result<()> {
    if held(tx, job)?.is_none() {
        return Ok(());
    }
    let outcome = json!({"error": error.code.name(), "detail": error.detail, "errors": error.errors});
    conclude(tx, job, used, &outcome)
}

fn conclude(tx: &mut Tx, job: &Job, used: &Use, outcome: &Value) -> Result<()> {
    store::set_outcome(tx, job.session, number(used.round), outcome)?;
    let new = NewRound { output: used.output.clone(), round: Some(used.round), key: None };
    rounds::submit_by(tx, &used.caller, job.session, &new, By::Tool).map(drop)
}

/// Counts a call that is about to begin, unless a limit is reached: then the run waits.
fn may_call(tx: &mut Tx, job: &Job, row: &RunRow, now: DateTime<Utc>) -> Result<bool> {
    let (limits, day) = (store::limits(tx, false)?, now.date_naive());
    let spent = store::lock_spent(tx, day)?;
    let Err(Reached { detail, seconds }) = spending::check_call(limits, spent, now) else {
        // A call that is made again was counted the first time.
        let rounds = i64::from(row.attempts == 0);
        store::spend(tx, day, Spend { rounds, ..Spend::default() })?;
        return Ok(true);
    };
    let seconds = TimeDelta::seconds(i64::try_from(seconds).unwrap_or(i64::MAX / 1000));
    wait(tx, job, row.attempts, Code::LimitReached.name(), &detail, now + seconds, now)?;
    Ok(false)
}

/// Stores an answer that was received.
///
/// # Errors
/// Those of the database; none where the session is gone.
pub fn keep(tx: &mut Tx, job: &Job, round: u32, said: &Said, now: DateTime<Utc>) -> Result<()> {
    if store::find(tx, job.session)?.is_none()
        || !store::insert_answer(tx, job.session, number(round), said, now)?
    {
        return Ok(());
    }
    let tokens = Spend {
        rounds: 0,
        prompt_tokens: said.prompt_tokens.unwrap_or_default(),
        completion_tokens: said.completion_tokens.unwrap_or_default(),
    };
    store::set_trouble(tx, job.session, 0, None)?;
    store::spend(tx, now.date_naive(), tokens)
}

/// What follows from a call that came to nothing: it is made again later, or the session fails.
///
/// # Errors
/// Those of the database.
pub fn stumble(
    tx: &mut Tx,
    job: &Job,
    trouble: &Trouble,
    most: u32,
    jitter: f64,
    now: DateTime<Utc>,
) -> Result<()> {
    let Some(row) = held(tx, job)? else { return Ok(()) };
    let attempts = row.attempts.saturating_add(1);
    match machine::wait(trouble, attempts.unsigned_abs(), most, jitter) {
        None => fail(tx, job, trouble, now),
        Some(time) => {
            let next_at = now + TimeDelta::from_std(time).unwrap_or(TimeDelta::zero());
            wait(tx, job, attempts, trouble.reason.as_str(), &trouble.detail, next_at, now)
        }
    }
}

/// Gives a run back that this server has begun nothing of.
///
/// # Errors
/// Those of the database.
pub fn put_back(tx: &mut Tx, job: &Job, now: DateTime<Utc>) -> Result<()> {
    store::put_back(tx, job.session, job.owner, now)?;
    tx.notify(QUEUED)
}

/// Whether the session can still take an answer.
///
/// # Errors
/// Those of the database.
pub fn is_open(tx: &mut Tx, job: &Job, now: DateTime<Utc>) -> Result<bool> {
    let ctx = Ctx::local(job.tenant, now, job.session);
    match running::glance(tx, &ctx, job.session) {
        Err(error) if error.code == Code::NotFound => Ok(false),
        standing => Ok(!standing?.status.is_finished()),
    }
}

/// The run, where this server still has it.
fn held(tx: &mut Tx, job: &Job) -> Result<Option<RunRow>> {
    let queue = store::queued(tx, job.session)?;
    if queue.is_none_or(|queue| queue.lease_owner != Some(job.owner)) {
        return Ok(None);
    }
    store::find(tx, job.session)
}

/// Who asked for the run, with the rights that the key has now.
fn caller(tx: &mut Tx, job: &Job, row: &RunRow, now: DateTime<Utc>) -> Result<Option<Ctx>> {
    let slates = match row.key_id {
        // The command line, which works as the operator of the machine.
        0 => None,
        id => match store::key(tx, id, now)? {
            None => return Ok(None),
            Some(slates) => slates,
        },
    };
    Ok(Some(Ctx {
        tenant: job.tenant,
        key_id: row.key_id,
        scopes: Arc::new([Scope::Retrieve]),
        slates: slates.map(Into::into),
        request_id: job.session,
        now,
    }))
}

fn fail(tx: &mut Tx, job: &Job, trouble: &Trouble, now: DateTime<Utc>) -> Result<()> {
    // A key that opens nothing any more does not keep its session from ending.
    let ctx = Ctx::local(job.tenant, now, job.session);
    running::fail(tx, &ctx, job.session, trouble.reason.as_str(), &trouble.detail)?;
    let told = json!({"reason": trouble.reason.as_str(), "detail": trouble.detail});
    let attempts = store::find(tx, job.session)?.map_or(0, |row| row.attempts);
    store::set_trouble(tx, job.session, attempts.saturating_add(1), Some(&told))?;
    store::dequeue(tx, job.session)
}

fn wait(
    tx: &mut Tx,
    job: &Job,
    attempts: i32,
    reason: &str,
    detail: &str,
    next_at: DateTime<Utc>,
    now: DateTime<Utc>,
) -> Result<()> {
    let told = Happened::Retry { reason: reason.into(), detail: detail.into(), next_at };
    events::append(tx, job.session, &told, now)?;
    store::set_trouble(tx, job.session, attempts, Some(&json!({"reason": reason, "detail": detail})))?;
    store::put_back(tx, job.session, job.owner, next_at)
}

fn model(row: &RunRow) -> Result<Model> {
    serde_json::from_value(row.model.clone()).map_err(Error::internal)
}

/// Rounds as the database counts them; they end at 101.
fn number(round: u32) -> i32 {
    i32::try_from(round).unwrap_or(i32::MAX)
}
