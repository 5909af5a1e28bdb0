//! Completion of the names of slates, folders and files, for the resource template and the prompt.

use rmcp::model::{CompleteRequestParams, CompleteResult, CompletionInfo, Reference};

use super::{prompts, resources};
use crate::app::App;
use crate::ctx::{Ctx, Scope};
use crate::error::{Code, Error, Result};
use crate::path::FolderPath;
use crate::{folders, slates};

/// How many names are looked at.
const LOOKED_AT: i64 = 1000;

pub(super) async fn complete(app: &App, ctx: &Ctx, request: CompleteRequestParams) -> Result<CompleteResult> {
    let only_folders = match &request.r#ref {
        Reference::Resource(template) if template.uri == resources::TEMPLATE => false,
        Reference::Prompt(prompt) if prompt.name == prompts::RESEARCH => true,
        _ => {
            return Err(Error::invalid_at(
                "/ref",
                "is neither the resource template nor the prompt of this server",
            ));
        }
    };
    let typed = request.argument.value;
    let given = request.context.and_then(|context| context.arguments).unwrap_or_default();
    let names = match (request.argument.name.as_str(), given.get("slate")) {
        _ if ctx.require(Scope::Read).is_err() && ctx.require(Scope::Retrieve).is_err() => Vec::new(),
        ("slate", _) => names_of_slates(app, ctx, typed).await?,
        ("path" | "folder", Some(slate)) => names_in(app, ctx, slate.clone(), typed, only_folders).await?,
        _ => Vec::new(),
    };
    let more = names.len() > CompletionInfo::MAX_VALUES;
    let names: Vec<String> = names.into_iter().take(CompletionInfo::MAX_VALUES).collect();
    let mut completion =
        CompletionInfo::new(names).map_err(|error| Error::internal(anyhow::anyhow!(error)))?;
    completion.has_more = Some(more);
    Ok(CompleteResult::new(completion))
}

async fn names_of_slates(app: &App, ctx: &Ctx, typed: String) -> Result<Vec<String>> {
    let asking = ctx.clone();
    let all = app.db.tenant(ctx.tenant, move |tx| slates::ops::list(tx, &asking, None, LOOKED_AT));
    let names = all.await?.into_iter().map(|slate| slate.name);
    Ok(names.filter(|name| name.starts_with(&typed)).collect())
}

/// What begins with the text typed: the names in the folder that it leads into.
async fn names_in(
    app: &App,
    ctx: &Ctx,
    slate: String,
    typed: String,
    only_folders: bool,
) -> Result<Vec<String>> {
    let (folder, begun) = typed.rsplit_once('/').map_or(("", &*typed), |(folder, begun)| (folder, begun));
    let Ok(path) = FolderPath::parse(folder) else { return Ok(Vec::new()) };
    if begun.contains('\0') {
        return Ok(Vec::new());
    }
    let (asking, after) = (ctx.clone(), (!begun.is_empty()).then(|| begun.to_owned()));
    let index = app.db.tenant(ctx.tenant, move |tx| {
        folders::ops::index_at(tx, &asking, &slate, &path, after.as_deref(), LOOKED_AT)
    });
    let entries = match index.await {
        Ok((_, entries)) => entries,
        Err(error) if error.code == Code::NotFound => Vec::new(),
        Err(error) => return Err(error),
    };
    let before = &typed[..typed.len() - begun.len()];
    let names = entries.into_iter().map(|entry| entry.name).filter(|name| name.starts_with(begun));
    let names = names.filter(|name| !only_folders || name.ends_with('/'));
    Ok(names.map(|name| format!("{before}{name}")).collect())
}
