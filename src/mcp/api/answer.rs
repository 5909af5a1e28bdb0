//! What a call is answered with: structured content and the same as text, or a problem that says what to do next.

use rmcp::model::{CallToolResult, ContentBlock, ErrorData, JsonObject, MetaObject};
use serde_json::{Value, json};

use crate::ctx::Ctx;
use crate::error::{Code, Error, FieldError};

/// Where the problem itself is, in a result's `_meta`.
const PROBLEM: &str = "slatebase/problem";

/// What came of a call. `input` is the schema of what the tool takes.
pub(super) fn result(ctx: &Ctx, done: Result<Value, Error>, input: &JsonObject) -> CallToolResult {
    match done {
        Ok(value) if value.get("failure").is_some_and(Value::is_object) => failure(value),
        Ok(value) => CallToolResult::structured(value),
        Err(error) => problem(ctx, &error, input),
    }
}

/// An answer that nothing could be got, which is on record as any other.
fn failure(value: Value) -> CallToolResult {
    let near = value["failure"]["alternatives"].as_array().filter(|near| !near.is_empty());
    let advice = match near {
        Some(near) => format!("What to do: try one of these: {}.", Value::from(near.clone())),
        None => {
            "What to do: `failure` tells what was wrong; look the thing up, or ask for another part of it."
                .into()
        }
    };
    let mut result = CallToolResult::structured_error(value);
    result.content.push(ContentBlock::text(advice));
    result
}

/// A problem, as the result of a call.
pub(super) fn problem(ctx: &Ctx, error: &Error, input: &JsonObject) -> CallToolResult {
    log(error);
    let mut text = format!("{}: {}", error.code.title(), error.detail);
    for at in &error.errors {
        text.push_str(&format!("\n- {}", at_fault(at, input)));
    }
    text.push_str(&format!("\nWhat to do: {}", advice(error)));
    let mut meta = MetaObject::default();
    meta.insert(
        PROBLEM.into(),
        json!({
            "type": format!("/problems/{}", error.code.name()),
            "title": error.code.title(),
            "status": error.code.status(),
            "detail": error.detail,
            "errors": error.errors,
            "request_id": ctx.request_id,
        }),
    );
    CallToolResult::error(vec![ContentBlock::text(text)]).with_meta(Some(meta))
}

/// The same of what is no call of a tool: the protocol's own kind of error.
pub(super) fn refusal(error: Error) -> ErrorData {
    log(&error);
    let data = json!({"type": format!("/problems/{}", error.code.name()), "errors": error.errors});
    let text = format!("{}: {}. {}", error.code.title(), error.detail, advice(&error));
    match error.code {
        Code::NotFound | Code::Gone => ErrorData::resource_not_found(text, Some(data)),
        code if code.status() >= 500 => ErrorData::internal_error(text, Some(data)),
        _ => ErrorData::invalid_params(text, Some(data)),
    }
}

fn log(error: &Error) {
    match &error.source {
        Some(source) if error.code.status() >= 500 => {
            tracing::error!(code = error.code.name(), "{source:#}");
        }
        _ => tracing::debug!(code = error.code.name(), "{}", error.detail),
    }
}

/// A member that is wrong, with what it takes where the schema tells.
fn at_fault(at: &FieldError, input: &JsonObject) -> String {
    let named = at.pointer.split('/').nth(1).or_else(|| at.detail.split('`').nth(1));
    let takes = named.and_then(|name| input.get("properties")?.get(name)?["description"].as_str());
    let place = if at.pointer.is_empty() { "the arguments" } else { &at.pointer };
    match takes {
        Some(takes) => format!("{place}: {}. It takes: {takes}", at.detail),
        None => format!("{place}: {}", at.detail),
    }
}

fn advice(error: &Error) -> String {
    let after = error.retry_after.unwrap_or(1);
    match error.code {
        Code::Invalid | Code::BadRequest | Code::MalformedJson => {
            "correct the members that are named, and call again.".into()
        }
        Code::NotFound => {
            "look it up first: `list_slates` tells the slates, `browse` the folders and files; names are \
                           case-sensitive."
                .into()
        }
        Code::Gone => "its bytes are no longer kept; take the newest version.".into(),
        Code::Forbidden => "ask for a key with that scope; the call is no use with this one.".into(),
        Code::NameConflict | Code::AlreadyExists => "choose another name, or take away what has it.".into(),
        Code::FolderNotEmpty => "set `recursive` to delete what is in it too.".into(),
        Code::SessionFinished => "the session takes no more calls; give its answer to whoever asked.".into(),
        Code::RunActive => "wait for the run, or cancel the session.".into(),
        Code::RoundConflict | Code::IdempotencyMismatch => {
            "leave `slatebase/round` out to take the next round, or send the very arguments of that round."
                .into()
        }
        Code::LimitReached | Code::Overloaded | Code::QueryTimeout | Code::Unavailable | Code::Conflict => {
            format!("wait {after} s, then call again as you did.")
        }
        _ => "call again; if it fails again, tell whoever runs the service the request's id.".into(),
    }
}
