//! Request bodies, read under a limit.
//!
//! Every route has one: [`DEFAULT_LIMIT`], or what it names itself. Past it the answer is 413, and a body that stops
//! coming is 408. Bodies above [`LARGE`] need one of a fixed number of permits, which is held for as long as the request
//! is, so that the memory that they take is bounded. So do contents above it on their way out ([`send`]).

use std::fs::File;
use std::io::{Seek, Write};
use std::time::Duration;

use actix_web::body::{MessageBody, SizedStream};
use actix_web::dev::Payload;
use actix_web::http::header::{CONTENT_ENCODING, CONTENT_LENGTH};
use actix_web::web::{self, Bytes, BytesMut};
use actix_web::{FromRequest, HttpMessage, HttpRequest};
use futures_util::future::LocalBoxFuture;
use futures_util::{Stream, StreamExt};
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use crate::app::App;
use crate::error::{Code, Error, Result};

/// Bytes that a body may have where the route names no other limit.
pub const DEFAULT_LIMIT: usize = 1 << 20;

/// Bytes above which a body needs a permit.
pub const LARGE: usize = 1 << 20;

/// How long a large body waits for a permit.
const PATIENCE: Duration = Duration::from_millis(1500);

/// How long the next piece of a body may take to come, or to be taken.
const SILENCE: Duration = Duration::from_secs(30);

/// Bytes of large contents that are handed to the connection at once.
const PIECE: usize = 64 << 10;

/// The body as it came, at most `LIMIT` bytes.
pub struct Raw<const LIMIT: usize = DEFAULT_LIMIT>(pub Bytes);

impl<const LIMIT: usize> FromRequest for Raw<LIMIT> {
    type Error = Error;
    type Future = LocalBoxFuture<'static, Result<Self>>;

    fn from_request(req: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let (req, mut payload) = (req.clone(), payload.take());
        Box::pin(async move { read(&req, &mut payload, LIMIT).await.map(Raw) })
    }
}

/// The permit of a large body, kept with its request.
struct Permit(#[allow(dead_code, reason = "it is held, not read")] OwnedSemaphorePermit);

/// Reads the whole body.
///
/// # Errors
/// 413 past `limit`; 415 for a compressed body; 408 when it stops coming; 503 when too many large bodies are in memory.
pub async fn read(req: &HttpRequest, payload: &mut Payload, limit: usize) -> Result<Bytes> {
    refuse_encoded(req)?;
    let announced: Option<u64> =
        req.headers().get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    if announced.is_some_and(|length| length > limit as u64) {
        return Err(too_large(limit as u64));
    }
    if announced.is_some_and(|length| length > LARGE as u64) {
        admit_large(req).await?;
    }
    let Some(first) = next(payload).await? else { return Ok(Bytes::new()) };
    let Some(second) = next(payload).await? else { return within(first, limit) };
    let mut body = BytesMut::with_capacity(announced.map_or(0, |length| length as usize));
    body.extend_from_slice(&first);
    let mut piece = Some(second);
    while let Some(bytes) = piece {
        let length = body.len() + bytes.len();
        if length > limit {
            return Err(too_large(limit as u64));
        }
        if length > LARGE {
            admit_large(req).await?;
        }
        body.extend_from_slice(&bytes);
        piece = next(payload).await?;
    }
    Ok(body.freeze())
}

/// Puts the whole body into a temporary file, which has no name and goes when it is closed; tells its bytes.
///
/// # Errors
/// As [`read`], but that no permit is needed; [`Code::Internal`] where the file cannot be written.
pub async fn spool(req: &HttpRequest, payload: &mut Payload, limit: u64) -> Result<(File, u64)> {
    refuse_encoded(req)?;
    let announced: Option<u64> =
        req.headers().get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    if announced.is_some_and(|length| length > limit) {
        return Err(too_large(limit));
    }
    let (mut pending, mut size) = (BytesMut::new(), 0);
    let mut file = Some(tempfile::tempfile().map_err(Error::internal)?);
    loop {
        let piece = next(payload).await?;
        size += piece.as_ref().map_or(0, Bytes::len) as u64;
        if size > limit {
            return Err(too_large(limit));
        }
        let ended = piece.is_none();
        pending.extend_from_slice(&piece.unwrap_or_default());
        if ended || pending.len() >= LARGE {
            let (bytes, mut to) = (pending.split(), file.take());
            let written =
                web::block(move || to.as_mut().map_or(Ok(()), |file| file.write_all(&bytes)).map(|()| to));
            file = written.await.map_err(Error::internal)?.map_err(Error::internal)?;
        }
        if ended {
            break;
        }
    }
    let mut file = file.ok_or_else(|| Error::new(Code::Internal, "the failure has been logged"))?;
    file.rewind().map_err(Error::internal)?;
    Ok((file, size))
}

/// What a thread makes, as the body of a response. A client that takes nothing for too long is cut off: the thread finds
/// that nobody takes any more.
pub fn stream(mut made: mpsc::Receiver<Bytes>) -> impl Stream<Item = Result<Bytes>> {
    let (pieces, receiver) = mpsc::channel(1);
    actix_web::rt::spawn(async move {
        while let Some(piece) = made.recv().await {
            if !matches!(tokio::time::timeout(SILENCE, pieces.send(piece)).await, Ok(Ok(()))) {
                return;
            }
        }
    });
    futures_util::stream::unfold(receiver, |mut receiver| async move {
        receiver.recv().await.map(|piece| (Ok::<_, Error>(piece), receiver))
    })
}

/// The next piece of a body, or none at its end; for routes that read one as a stream.
///
/// # Errors
/// 408 when it takes too long; 400 when the connection breaks or the framing is wrong.
pub async fn next(payload: &mut Payload) -> Result<Option<Bytes>> {
    match tokio::time::timeout(SILENCE, payload.next()).await {
        Err(_) => Err(Error::new(Code::RequestTimeout, "the body stopped coming")),
        Ok(None) => Ok(None),
        Ok(Some(Ok(bytes))) => Ok(Some(bytes)),
        Ok(Some(Err(error))) => Err(Error {
            source: Some(anyhow::anyhow!("{error}")),
            ..Error::new(Code::BadRequest, "the body ended early or is framed wrongly")
        }),
    }
}

/// Waits for the permit to hold a large body in memory, unless the request has one.
///
/// # Errors
/// [`Code::Overloaded`] when none comes free in time.
pub async fn admit_large(req: &HttpRequest) -> Result<()> {
    if req.extensions().contains::<Permit>() {
        return Ok(());
    }
    let app = req.app_data::<web::Data<App>>().ok_or_else(super::auth::no_app)?;
    let permit = permit(app).await?;
    req.extensions_mut().insert(Permit(permit));
    Ok(())
}

/// Waits for a permit to hold something large in memory.
///
/// # Errors
/// As [`admit_large`].
pub async fn permit(app: &App) -> Result<OwnedSemaphorePermit> {
    tokio::time::timeout(PATIENCE, app.large_bodies.clone().acquire_owned())
        .await
        .map_err(|_| Error::new(Code::Overloaded, "too many large bodies are in transit"))?
        .map_err(Error::internal)
}

/// Large contents as the body of a response, piece by piece: no second copy of them waits for a slow client, and the
/// request's permit is kept until the last piece is taken. A client that takes nothing for too long is cut off, so that it
/// does not keep the permit from others.
pub fn send(req: &HttpRequest, mut contents: Bytes) -> impl MessageBody + 'static {
    let permit = req.extensions_mut().remove::<Permit>();
    let size = contents.len() as u64;
    let (pieces, receiver) = mpsc::channel(1);
    actix_web::rt::spawn(async move {
        let _permit = permit;
        while !contents.is_empty() {
            let piece = contents.split_to(PIECE.min(contents.len()));
            if !matches!(tokio::time::timeout(SILENCE, pieces.send(piece)).await, Ok(Ok(()))) {
                return;
            }
        }
    });
    let pieces = futures_util::stream::unfold(receiver, |mut receiver| async move {
        receiver.recv().await.map(|piece| (Ok::<_, Error>(piece), receiver))
    });
    SizedStream::new(size, pieces)
}

/// Bodies are taken as they are: a small one could unpack to any size.
fn refuse_encoded(req: &HttpRequest) -> Result<()> {
    match req.headers().get(CONTENT_ENCODING) {
        Some(encoding) if !encoding.as_bytes().eq_ignore_ascii_case(b"identity") => {
            Err(Error::new(Code::UnsupportedMediaType, "a body must have no Content-Encoding"))
        }
        _ => Ok(()),
    }
}

fn within(body: Bytes, limit: usize) -> Result<Bytes> {
    if body.len() > limit { Err(too_large(limit as u64)) } else { Ok(body) }
}

fn too_large(limit: u64) -> Error {
    Error::new(Code::BodyTooLarge, format!("the body may have at most {limit} bytes here"))
}
