//! Many files in one request: NDJSON in, NDJSON out, in order, in bounded memory.
//!
//! Lines are gathered into batches, each its own transaction; while one is written, the next is read. What is wrong
//! with one line is that line's answer. Why a batch fails as a whole, since the database went away, say, is the answer to each of its lines, and the rest go on: sending
//! those lines again, or all, changes nothing that is already there.

use actix_web::dev::Payload;
use actix_web::rt::task::JoinHandle;
use actix_web::web::{self, Bytes, BytesMut};
use actix_web::{HttpRequest, HttpResponse};
use futures_util::stream;
use serde::Serialize;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tracing::Instrument;
use utoipa::ToSchema;

use super::{JSON_LIMIT, NewFile};
use crate::app::App;
use crate::ctx::Ctx;
use crate::error::{Code, Error, Result};
use crate::files::line::LineError;
use crate::files::ops::{self, Write, Written};
use crate::http::{body, json};
use crate::slates;

/// Files that are written in one transaction at most.
const BATCH_FILES: usize = 1000;
/// Bytes of lines past which a batch is written.
const BATCH_BYTES: usize = 8 << 20;
/// Lines that one request may have. Answers wait in memory for a client that sends all before it reads any.
const MAX_LINES: u64 = 1_000_000;

/// The answer to one line.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = FileLine)]
pub(super) struct LineView {
    /// Which line, from 1.
    #[schema(example = 1)]
    line: u64,
    /// The path that it names, if it could be read.
    #[schema(example = "docs/core.md")]
    path: Option<String>,
    /// 201, or 200 where the path existed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = 201)]
    status: Option<u16>,
    /// The file's version now.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = 1)]
    version: Option<i64>,
    /// The metatags that were given as null, and so were not set.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    null_metatags: Vec<String>,
    /// Why the line was not written.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<LineError>,
}

/// A line that was read: its number, its path, and what to write or what is wrong with it.
struct Line {
    number: u64,
    path: Option<String>,
    write: Result<(Write, Vec<String>)>,
}

/// Where answers go, and what waits to be written.
struct Loader {
    app: web::Data<App>,
    ctx: Ctx,
    slate: String,
    req: HttpRequest,
    answers: UnboundedSender<Bytes>,
    batch: Vec<Line>,
    bytes: usize,
    lines: u64,
    /// A batch that is being written while the next one is read.
    writing: Option<Writing>,
}

/// A batch, and what becomes of its lines that could be read.
struct Writing {
    batch: Vec<Line>,
    written: JoinHandle<Result<Vec<Result<Written>>>>,
}

/// Answers a POST of NDJSON.
pub(super) async fn post(
    app: web::Data<App>,
    ctx: Ctx,
    slate: String,
    req: HttpRequest,
    payload: Payload,
) -> Result<HttpResponse> {
    // What concerns all lines is a refusal of the whole, before any is answered.
    let (caller, name) = (ctx.clone(), slate.clone());
    app.db.tenant(ctx.tenant, move |tx| slates::ops::get(tx, &caller, &name)).await?;
    let (answers, receiver) = unbounded_channel();
    let loader =
        Loader { app, ctx, slate, req, answers, batch: Vec::new(), bytes: 0, lines: 0, writing: None };
    actix_web::rt::spawn(loader.run(payload).instrument(tracing::Span::current()));
    let body = stream::unfold(receiver, |mut receiver| async move {
        receiver.recv().await.map(|bytes| (Ok::<_, Error>(bytes), receiver))
    });
    Ok(HttpResponse::Ok().content_type("application/x-ndjson").streaming(body))
}

impl Loader {
    async fn run(mut self, mut payload: Payload) {
        let ended = self.read(&mut payload).await;
        // The lines before a break are whole, and go on.
        self.flush().await;
        self.settle().await;
        if let Err(error) = ended {
            self.lines += 1;
            self.answer(&LineView::failed(self.lines, None, &error));
        }
    }

    /// Reads to the end of the body. An error is what ends it early.
    async fn read(&mut self, payload: &mut Payload) -> Result<()> {
        let mut pending = BytesMut::new();
        // Bytes of `pending` that are known to hold no end of a line.
        let mut searched = 0;
        while let Some(bytes) = body::next(payload).await? {
            pending.extend_from_slice(&bytes);
            while let Some(end) = pending[searched..].iter().position(|byte| *byte == b'\n') {
                let line = pending.split_to(searched + end + 1);
                searched = 0;
                self.line(&line).await?;
            }
            searched = pending.len();
            if searched > body::LARGE {
                body::admit_large(&self.req).await?;
            }
            if searched > JSON_LIMIT {
                let detail =
                    format!("a line may have at most {JSON_LIMIT} bytes; this one ended the request");
                return Err(Error::new(Code::BodyTooLarge, detail));
            }
        }
        self.line(&pending).await
    }

    async fn line(&mut self, text: &[u8]) -> Result<()> {
        self.lines += 1;
        let text = text.trim_ascii();
        if text.is_empty() {
            return Ok(());
        }
        if self.lines > MAX_LINES {
            let detail = format!("one request may have {MAX_LINES} lines; send the rest in another");
            return Err(Error::new(Code::BodyTooLarge, detail));
        }
        let read = json::parse::<NewFile>(text);
        let path = read.as_ref().ok().map(|file| file.path().to_owned());
        let write = read.and_then(NewFile::into_write);
        self.bytes += text.len();
        self.batch.push(Line { number: self.lines, path, write });
        if self.batch.len() >= BATCH_FILES || self.bytes >= BATCH_BYTES {
            self.flush().await;
        }
        Ok(())
    }

    /// Begins to write what waits, once the batch before is written: each is as if the ones before it had been.
    async fn flush(&mut self) {
        self.settle().await;
        let batch = std::mem::take(&mut self.batch);
        self.bytes = 0;
        let writes: Vec<Write> =
            batch.iter().filter_map(|line| Some(line.write.as_ref().ok()?.0.clone())).collect();
        let (app, ctx, slate) = (self.app.clone(), self.ctx.clone(), self.slate.clone());
        let tenant = ctx.tenant;
        let write = async move {
            if writes.is_empty() {
                return Ok(Vec::new());
            }
            app.db.tenant(tenant, move |tx| ops::write_many(tx, &ctx, &slate, writes.clone())).await
        };
        let written = actix_web::rt::spawn(write.instrument(tracing::Span::current()));
        self.writing = Some(Writing { batch, written });
    }

    /// Answers the lines of the batch that is being written, once it is.
    async fn settle(&mut self) {
        let Some(Writing { batch, written }) = self.writing.take() else { return };
        let mut written =
            written.await.unwrap_or_else(|ended| Err(Error::internal(ended))).map(Vec::into_iter);
        for Line { number, path, write } in batch {
            let failed = |error: &Error| LineView::failed(number, path.clone(), error);
            let view = match (write, &mut written) {
                (Err(error), _) => failed(&error),
                (Ok(_), Err(error)) => failed(error),
                (Ok((_, null_metatags)), Ok(written)) => {
                    match written.next().unwrap_or_else(|| Err(Error::not_found())) {
                        Err(error) => failed(&error),
                        Ok(written) => LineView {
                            line: number,
                            path,
                            status: Some(if written.created { 201 } else { 200 }),
                            version: Some(written.head.version),
                            null_metatags,
                            error: None,
                        },
                    }
                }
            };
            self.answer(&view);
        }
    }

    /// A client that has gone reads no answers; what it sent is written all the same.
    fn answer(&self, view: &LineView) {
        let mut text = serde_json::to_vec(view).unwrap_or_default();
        text.push(b'\n');
        let _ = self.answers.send(text.into());
    }
}

impl LineView {
    fn failed(line: u64, path: Option<String>, error: &Error) -> LineView {
        let error = Some(LineError::from(error));
        LineView { line, path, status: None, version: None, null_metatags: Vec::new(), error }
    }
}
