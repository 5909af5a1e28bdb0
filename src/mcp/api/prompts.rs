//! The prompt `research`: a question, with what the folder holds and how to ask for it.

use rmcp::model::{GetPromptRequestParams, GetPromptResult, Prompt, PromptArgument, PromptMessage, Role};

use super::tools::folder_at;
use crate::app::App;
use crate::ctx::{Ctx, Scope};
use crate::error::{Error, Result};
use crate::retrieval::facets::Facet;
use crate::retrieval::ops::facets::{Asked, facets};
use crate::{folders, slates};

/// The prompt's name.
pub(super) const RESEARCH: &str = "research";
/// Entries of the outline.
const ENTRIES: i64 = 50;
/// Metatags that are told of, and values of each.
const TAGS: (i64, i64) = (20, 5);
/// Bytes of a question.
const MAX_QUESTION: usize = 64 << 10;

/// The prompts that a key may use.
pub(super) fn of(ctx: &Ctx) -> Vec<Prompt> {
    if ctx.require(Scope::Retrieve).is_err() {
        return Vec::new();
    }
    let argument = |name: &str, description: &str, required: bool| {
        PromptArgument::new(name).with_description(description).with_required(required)
    };
    let arguments = vec![
        argument("slate", "The slate's name.", true),
        argument("folder", "The folder's path from the slate's root; left out, the root.", false),
        argument("question", "What is to be found out.", true),
    ];
    let description = "Answer a question from what a folder holds, with citations.";
    vec![Prompt::new(RESEARCH, Some(description), Some(arguments)).with_title("Research a question")]
}

pub(super) async fn get(app: &App, ctx: &Ctx, request: GetPromptRequestParams) -> Result<GetPromptResult> {
    if request.name != RESEARCH {
        return Err(Error::invalid_at("/name", format!("there is no such prompt: `{RESEARCH}` is")));
    }
    ctx.require(Scope::Retrieve)?;
    let mut given = request.arguments.unwrap_or_default();
    let mut take = |name: &str| -> Option<Result<String>> {
        let value = given.remove(name).filter(|value| !value.is_null())?;
        let text = value.as_str().map(str::to_owned);
        Some(text.ok_or_else(|| Error::invalid_at(format!("/arguments/{name}"), "must be a text")))
    };
    let needed = |name: &str, value: Option<Result<String>>| {
        value.unwrap_or_else(|| Err(Error::invalid_at(format!("/arguments/{name}"), "is needed")))
    };
    let slate = needed("slate", take("slate"))?;
    let folder = take("folder").transpose()?.unwrap_or_default();
    let question = needed("question", take("question"))?;
    if let Some(name) = given.keys().next() {
        let detail = "is no argument: slate, folder and question are";
        return Err(Error::invalid_at(crate::error::pointer("/arguments", name), detail));
    }
    if question.len() > MAX_QUESTION {
        return Err(Error::invalid_at("/arguments/question", format!("may have {MAX_QUESTION} bytes")));
    }
    let folder = folder_at(&folder, "/arguments/folder")?;
    let asking = ctx.clone();
    let (name, path) = (slate.clone(), folder.clone());
    let made = app.db.tenant(ctx.tenant, move |tx| {
        let about = slates::ops::get(tx, &asking, &name)?.description;
        let (_, entries) = folders::ops::index_at(tx, &asking, &name, &path, None, ENTRIES + 1)?;
        let (limit, values) = TAGS;
        let asked =
            Asked { slate: name.clone(), folder: path.clone(), recursive: true, after: None, limit, values };
        Ok((about, entries, facets(tx, &asking, &asked)?))
    });
    let (about, entries, found) = made.await?;
    let mut text = format!("Answer this question from the slate `{slate}`");
    if !folder.as_str().is_empty() {
        text.push_str(&format!(", folder `{folder}`", folder = folder.as_str()));
    }
    text.push_str(&format!(":\n\n{question}\n\n"));
    if let Some(about) = about {
        text.push_str(&format!("What it is: {about}\n\n"));
    }
    text.push_str(&format!("It holds {} files. Its first entries:\n", found.files));
    for entry in entries.iter().take(ENTRIES as usize) {
        text.push_str(&format!("- {}\n", entry.name));
    }
    if entries.len() > ENTRIES as usize {
        text.push_str("- … (`browse` tells the rest)\n");
    }
    if !found.items.is_empty() {
        text.push_str("\nMetatags of its files:\n");
        found.items.iter().for_each(|facet| text.push_str(&line(facet)));
    }
    text.push_str(GUIDE);
    let messages = vec![PromptMessage::new_text(Role::User, text)];
    Ok(GetPromptResult::new(messages).with_description("A question, and what the folder holds"))
}

const GUIDE: &str = "
How to look:
- `find` with `metatag` {name, contains?}, with `glob` over file names, or with `where` over metatags, names, times and sizes; \
`recursive: true` for the folders below. Ask for all that you need in one call: each file comes once.
- `browse` for the index of a folder, `read` for a file or lines of it.
Answer from what you have read alone, give the `citation` of each document that you rely on, and check what you quote with \
`check_quote`. Say so where the slate does not tell.
";

fn line(facet: &Facet) -> String {
    let values: Vec<&str> = facet.values.iter().map(|value| value.value.as_str()).collect();
    match values.is_empty() {
        true => format!("- {}\n", facet.name),
        false => format!("- {}: {}\n", facet.name, values.join(", ")),
    }
}
