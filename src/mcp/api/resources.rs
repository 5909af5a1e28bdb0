//! Files as resources: `slate://{slate}/{path}`, as a citation writes it, with or without a version and lines.

use rmcp::model::{ListResourcesResult, ReadResourceResult, Resource, ResourceContents, ResourceTemplate};
use serde_json::json;

use crate::app::App;
use crate::capability::citations::{ResolveStatus, ToResolve};
use crate::capability::runner;
use crate::ctx::{Ctx, Scope};
use crate::error::{Code, Error, Result};
use crate::files::ops::read;
use crate::http::body::{LARGE, permit};
use crate::http::page;
use crate::path::FolderPath;
use crate::provenance::citation::{Address, Citation, address_of};
use crate::retrieval::found::{After, FoundFile, Window};
use crate::retrieval::ops::{Declared, open, search};
use crate::retrieval::request::Request;
use crate::slates;

/// Files on a page.
const PAGE: usize = 100;

/// How a resource is named.
pub(super) const TEMPLATE: &str = "slate://{slate}/{+path}";

pub(super) fn template() -> ResourceTemplate {
    ResourceTemplate::new(TEMPLATE, "file").with_title("A file of a slate").with_description(
        "The newest version of a file; with `@3` at its end that version, with `#L1-50` those lines.",
    )
}

/// Resources are read as `retrieve` is.
///
/// # Errors
/// [`Code::Forbidden`].
pub(super) fn may(ctx: &Ctx) -> Result<()> {
    ctx.require(Scope::Retrieve)
}

pub(super) fn address(uri: &str) -> Result<Address> {
    Address::parse(uri).map_err(|error| Error::invalid_at("/uri", error.to_string()))
}

/// A page of all files of all slates that the key may touch, by slate and path.
pub(super) async fn list(app: &App, ctx: &Ctx, cursor: Option<String>) -> Result<ListResourcesResult> {
    if may(ctx).is_err() {
        return Ok(ListResourcesResult::default());
    }
    let begin: Option<(String, Option<After>)> = page::open(cursor.as_deref())?;
    let asking = ctx.clone();
    let (files, next) = app
        .db
        .tenant(ctx.tenant, move |tx| {
            let mut files: Vec<(String, FoundFile)> = Vec::new();
            let (mut slate, mut after) =
                begin.clone().map_or((None, None), |(slate, after)| (Some(slate), after));
            loop {
                if let Some(name) = &slate {
                    let request = Request { glob: Some("*".into()), ..Request::default() };
                    let declared = Declared { slate: name, folder: &FolderPath::root(), recursive: true };
                    let after = after.take().unwrap_or(After::Key(String::new()));
                    let limit = PAGE - files.len();
                    let window = Window { after, limit, count: false, ahead: 0, contents: false };
                    if let Some(opened) = open(tx, &asking, declared, &request, false)? {
                        let found = search(tx, opened, &request, &window)?;
                        let of_slate = found.items.iter().filter_map(|placed| placed.item.file().cloned());
                        files.extend(of_slate.map(|file| (name.clone(), file)));
                        if let Some(next) = found.next {
                            return Ok((files, Some((name.clone(), Some(next)))));
                        }
                    }
                }
                let following = slates::ops::list(tx, &asking, slate.as_deref(), 1)?.pop();
                let Some(following) = following else { return Ok((files, None)) };
                if files.len() == PAGE {
                    return Ok((files, Some((following.name, None))));
                }
                slate = Some(following.name);
            }
        })
        .await?;
    let mut result = ListResourcesResult::with_all_items(files.into_iter().map(resource).collect());
    result.next_cursor = next.map(|next| page::seal(&next));
    Ok(result)
}

fn resource((slate, file): (String, FoundFile)) -> Resource {
    let name = file.path.rsplit('/').next().unwrap_or_default().to_owned();
    Resource::new(address_of(&slate, &file.path), name)
        .with_title(file.path)
        .with_mime_type(file.media_type)
        .with_size(u64::try_from(file.size).unwrap_or_default())
}

/// A file's bytes, exactly, with the record of having given them.
pub(super) async fn read(app: &App, ctx: &Ctx, uri: &str) -> Result<ReadResourceResult> {
    may(ctx)?;
    let Address { slate, path, version, lines } = address(uri)?;
    let (asking, name, file) = (ctx.clone(), slate.clone(), path.clone());
    let head = app.db.tenant(ctx.tenant, move |tx| match version {
        None => {
            let (_, head) = read::get(tx, &asking, name.as_str(), &file)?;
            Ok((head.version, Some(head.media_type), head.size))
        }
        Some(version) => {
            let found = read::version(tx, &asking, name.as_str(), &file, version)?;
            Ok((version, Some(found.media_type), found.size))
        }
    });
    let (version, media_type, size) = head.await?;
    let _permit = if size > LARGE as i64 { Some(permit(app).await?) } else { None };
    let reference = Citation { slate, path, version, lines }.to_string();
    let found = runner::resolve(app, ctx, ToResolve { reference, hash: None }).await?;
    if !matches!(found.status, ResolveStatus::Verified | ResolveStatus::Changed) {
        let detail = found.detail.unwrap_or_else(|| "its bytes are no longer kept".into());
        return Err(Error::new(Code::Gone, detail));
    }
    let data = found.data.unwrap_or_default();
    let contents = match found.encoding {
        Some(_) => ResourceContents::blob(data, uri),
        None => ResourceContents::text(data, uri),
    };
    let meta = json!({"slatebase/provenance_id": found.provenance_id, "slatebase/citation": found.reference,
        "slatebase/hash": found.hash});
    let mut contents = contents.with_meta(serde_json::from_value(meta).map_err(Error::internal)?);
    if let Some(media_type) = media_type {
        contents = contents.with_mime_type(media_type);
    }
    Ok(ReadResourceResult::new(vec![contents]))
}
