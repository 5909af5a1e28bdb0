//! The workers of a server: they take runs by lease and make their calls, while other servers do the same.

use std::time::Duration;

use chrono::{SubsecRound, Utc};
use rand::RngExt;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use uuid::Uuid;

use super::chat::{self, Said};
use super::machine::{Reason, Trouble};
use super::ops::{self, Call, Job, Use, Work};
use crate::app::App;
use crate::corpora::runner::bearer;
use crate::error::{Code, Error, Result};
use crate::outbound::{self, Answer, Cut, Failure};
use crate::sessions::ops::events::topic;
use crate::tools::runner::send;

pub mod stream;

/// How often a server says that it lives.
const BEAT: Duration = Duration::from_millis(1500);
/// How often the queue is looked at although nothing told of it: leases run out in silence, and waits end so.
const LOOK: Duration = Duration::from_millis(500);
/// How long calls in flight may take to end once the server is told to stop: what they cost is spent already.
const GRACE: Duration = Duration::from_secs(20);
/// How long to wait where the database cannot be reached, or is overloaded.
const PAUSE: Duration = Duration::from_millis(250);
/// The most bytes of an answer that are read.
const MAX_ANSWER: usize = 8 << 20;

/// The workers of a server.
pub struct Workers(JoinHandle<()>);

impl Workers {
    /// Returns when they have ended, after `app.stopping` was set: calls in flight have ended or were given up, and other
    /// servers may take what is left at once.
    pub async fn ended(self) {
        // It is never cancelled, and what it runs catches panics.
        let _ = self.0.await;
    }
}

/// Starts the workers of a server.
pub fn start(app: &App) -> Workers {
    Workers(tokio::spawn(work(app.clone())))
}

async fn work(app: App) {
    let most = usize::from(app.runs.max_runs);
    if most == 0 {
        return;
    }
    let me = Uuid::new_v4();
    let mut stopping = app.stopping.subscribe();
    let mut queued = app.db.listener(ops::QUEUED);
    let beat = tokio::spawn(beat(app.clone(), me));
    let mut running = JoinSet::new();
    while !*stopping.borrow_and_update() {
        while running.try_join_next().is_some() {}
        let free = most - running.len();
        if free > 0 {
            queued.mark_unchanged();
            match app.db.operator(move |tx| ops::claim(tx, me, free)).await {
                Ok(jobs) => jobs.into_iter().for_each(|job| {
                    running.spawn(run(app.clone(), job));
                }),
                Err(error) => tracing::warn!("cannot take runs: {error}"),
            }
        }
        let full = running.len() == most;
        tokio::select! {
            _ = stopping.changed() => {}
            _ = running.join_next(), if !running.is_empty() => {}
            _ = queued.changed(), if !full => {}
            () = tokio::time::sleep(LOOK), if !full => {}
        }
    }
    let all = async { while running.join_next().await.is_some() {} };
    if tokio::time::timeout(GRACE, all).await.is_err() {
        tracing::warn!("calls of models were given up; other servers make them again");
    }
    running.shutdown().await;
    beat.abort();
    if let Err(error) = app.db.operator(move |tx| ops::release(tx, me)).await {
        tracing::warn!("runs are not released, and taken by others when their leases end: {error}");
    }
}

/// Says that this server lives, until it is aborted.
async fn beat(app: App, me: Uuid) {
    loop {
        tokio::time::sleep(BEAT).await;
        if let Err(error) = app.db.operator(move |tx| ops::renew(tx, me)).await {
            tracing::warn!("cannot renew the leases of runs: {error}");
        }
    }
}

/// Makes the calls of a run until it has ended, waits, is another server's, or this server stops.
async fn run(app: App, job: Job) {
    let stopping = app.stopping.subscribe();
    let mut changes = app.db.listener(&topic(job.tenant, job.session));
    loop {
        if *stopping.borrow() {
            let _ = app.db.tenant(job.tenant, move |tx| ops::put_back(tx, &job, now())).await;
            return;
        }
        let advanced = patiently(|| app.db.tenant(job.tenant, move |tx| ops::advance(tx, &job, now()))).await;
        let trouble = match advanced {
            Ok(None) => return,
            Ok(Some(Work::Use(used))) => {
                let ended = tokio::select! {
                    done = use_tool(&app, job, used) => done.err(),
                    () = ended(&app, &job, &mut changes) => continue,
                };
                ended.map(|error| internal(&error))
            }
            Ok(Some(Work::Ask(call))) => {
                let heard = tokio::select! {
                    heard = ask(&app, &call) => heard,
                    () = ended(&app, &job, &mut changes) => continue,
                };
                match heard {
                    Ok(said) => keep(&app, job, call.round, said).await.err().map(|error| internal(&error)),
                    Err(trouble) => Some(trouble),
                }
            }
            Err(error) => Some(internal(&error)),
        };
        let Some(trouble) = trouble else { continue };
        let most = app.runs.model_attempts;
        let jitter = rand::rng().random_range(0.0..1.0);
        let told = patiently(|| {
            let trouble = trouble.clone();
            app.db.tenant(job.tenant, move |tx| ops::stumble(tx, &job, &trouble, most, jitter, now()))
        });
        if let Err(error) = told.await {
            tracing::error!("a run cannot go on until its lease ends: {error}");
        }
        return;
    }
}

/// Stores an answer, however long the database is away: it was paid for.
async fn keep(app: &App, job: Job, round: u32, said: Said) -> Result<()> {
    patiently(|| {
        let said = said.clone();
        app.db.tenant(job.tenant, move |tx| ops::keep(tx, &job, round, &said, now()))
    })
    .await
}

/// Calls a tool, and takes its round. No connection to the database is held while it answers.
async fn use_tool(app: &App, job: Job, used: Use) -> Result<()> {
    let tenant = job.tenant;
    let begun = patiently(|| {
        let used = used.clone();
        app.db.tenant(tenant, move |tx| ops::begin(tx, &job, &used))
    });
    let done = match begun.await {
        Ok(None) => return Ok(()),
        Ok(Some(ready)) => match send(app, &used.caller, &ready, Some(&used.key(&job))).await {
            Ok(answer) => {
                let finished = patiently(|| {
                    let (used, ready, answer) = (used.clone(), ready.clone(), answer.clone());
                    app.db.tenant(tenant, move |tx| ops::finish(tx, &job, &used, &ready, answer.clone()))
                });
                finished.await
            }
            Err(error) => Err(error),
        },
        Err(error) => Err(error),
    };
    match done {
        // The model can do something about these.
        Err(error) if matches!(error.code, Code::ToolFailed | Code::Invalid | Code::NotFound) => {
            let error = std::sync::Arc::new(error);
            patiently(|| {
                let (used, error) = (used.clone(), error.clone());
                app.db.tenant(tenant, move |tx| ops::refuse(tx, &job, &used, &error))
            })
            .await
        }
        // It was ended meanwhile, and the next look sees it.
        Err(error) if error.code == Code::SessionFinished => Ok(()),
        done => done,
    }
}

/// Returns when the session was ended by another.
async fn ended(app: &App, job: &Job, changes: &mut watch::Receiver<()>) {
    loop {
        if changes.changed().await.is_err() {
            // The listener is gone, and the server with it.
            return std::future::pending().await;
        }
        let job = *job;
        if let Ok(false) =
            patiently(|| app.db.tenant(job.tenant, move |tx| ops::is_open(tx, &job, now()))).await
        {
            return;
        }
    }
}

/// Makes a call. No connection to the database is held meanwhile.
async fn ask(app: &App, call: &Call) -> Result<Said, Trouble> {
    let body =
        serde_json::to_vec(&call.body).map_err(|error| Trouble::new(Reason::Internal, error.to_string()))?;
    let timeout = Duration::from_millis(app.runs.model_timeout_ms.into());
    let mut request = outbound::Call::post(call.url.clone(), body, timeout, MAX_ANSWER);
    request.account = Some(call.caller.tenant.0);
    let headers = patiently(|| bearer(app, &call.caller, call.secret.as_ref())).await;
    // A secret that cannot be opened is as good as none.
    let headers = headers.unwrap_or_else(|error| Err(error.detail.into_owned()));
    request.headers = headers.map_err(|why| Trouble::new(Reason::NoSecret, why))?;
    match app.outbound.send(&request).await {
        Ok(answer) => heard(&answer, &call.tools),
        Err(failure) => {
            let (reason, after) = match &failure {
                Failure::Refused { .. } => (Reason::Refused, None),
                Failure::Unreachable { .. } => (Reason::Unreachable, None),
                Failure::Timeout { .. } => (Reason::Timeout, None),
                Failure::RateLimited { seconds, .. } => {
                    (Reason::RateLimited, Some(Duration::from_secs(*seconds)))
                }
            };
            Err(Trouble { after, ..Trouble::new(reason, failure.to_string()) })
        }
    }
}

fn heard(answer: &Answer, tools: &[String]) -> Result<Said, Trouble> {
    let host = answer.url.host_str().unwrap_or("the host");
    let status = answer.status.as_u16();
    if !answer.status.is_success() {
        let reason = match status {
            408 | 409 | 425 | 500..=599 => Reason::Unavailable,
            429 => Reason::RateLimited,
            _ => Reason::Rejected,
        };
        let trouble = Trouble::new(reason, format!("{host} answered with status {status}"));
        return Err(Trouble { after: answer.retry_after(Utc::now()), ..trouble });
    }
    match answer.cut {
        Some(Cut::Ended) => {
            Err(Trouble::new(Reason::Unreachable, format!("{host} hung up within its answer")))
        }
        Some(Cut::TooLarge) => {
            let detail = format!("the answer of {host} has more than {MAX_ANSWER} bytes");
            Err(Trouble::new(Reason::AnswerTooLarge, detail))
        }
        None => chat::read(&answer.body, tools),
    }
}

fn internal(error: &Error) -> Trouble {
    tracing::error!(code = error.code.name(), source = ?error.source, "a run stumbled: {}", error.detail);
    Trouble::new(Reason::Internal, "something went wrong on our side; the failure has been logged")
}

/// Does it again while the database is away or overloaded.
async fn patiently<T, F: Future<Output = Result<T>>>(mut work: impl FnMut() -> F) -> Result<T> {
    loop {
        match work().await {
            Err(error) if is_passing(error.code) => tokio::time::sleep(PAUSE).await,
            done => return done,
        }
    }
}

fn is_passing(code: Code) -> bool {
    matches!(code, Code::Overloaded | Code::Unavailable | Code::QueryTimeout | Code::Conflict)
}

/// The time as the schema keeps it: whole microseconds.
fn now() -> chrono::DateTime<Utc> {
    Utc::now().trunc_subsecs(6)
}
