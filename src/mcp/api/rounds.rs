//! A session as an MCP server: its rounds are calls.
//!
//! `retrieve` takes what the session's `requestMatch` allows, and is a round; `answer` ends the session. The list of tools
//! follows the session, by whichever server and door it is moved. A call is the same round where it is sent again: by its
//! number in `_meta`, or by its request id within the MCP session, which is the round's idempotency key.

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, Extensions,
    Implementation, JsonObject, ListToolsResult, PaginatedRequestParams, RequestMetaObject,
    ServerCapabilities, ServerConfig, SubscriptionFilter, Tool, ToolAnnotations,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::{Peer, RoleServer, ServerHandler};
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::sync::watch;
use uuid::Uuid;

use super::{answer, schemas};
use crate::app::App;
use crate::ctx::Ctx;
use crate::error::{Error, Result};
use crate::hex::hex;
use crate::http::json;
use crate::mcp::runner::caller::{Caller, Local, caller, mcp_session};
use crate::sessions::machine::Status;
use crate::sessions::ops::calls::{self, Called};
use crate::sessions::ops::rounds::NewRound;
use crate::sessions::ops::{self, events, running};
use crate::sessions::prompt::EXHAUSTED;
use crate::sessions::view::SessionView;

/// Where a call says which round it is, in its `_meta`.
const ROUND: &str = "slatebase/round";

/// Serves one session.
#[derive(Clone)]
pub(super) struct Rounds {
    pub app: App,
    pub local: Option<Local>,
}

impl Rounds {
    fn at(caller: &Caller) -> Result<Uuid, ErrorData> {
        caller.at.ok_or_else(|| answer::refusal(Error::not_found()))
    }

    async fn view(&self, ctx: &Ctx, id: Uuid) -> Result<SessionView> {
        let ctx = ctx.clone();
        self.app.db.tenant(ctx.tenant, move |tx| ops::get(tx, &ctx, id)).await
    }

    async fn retrieve(&self, ctx: &Ctx, id: Uuid, new: NewRound, tool: &Tool) -> CallToolResult {
        let asking = ctx.clone();
        let called = self.app.db.tenant(ctx.tenant, move |tx| calls::ask(tx, &asking, id, &new)).await;
        match called {
            Ok(Called::Round(view)) => {
                let exhausted = view.status == Status::Exhausted;
                let mut given = answer::result(
                    ctx,
                    serde_json::to_value(view).map_err(Error::internal),
                    &tool.input_schema,
                );
                if exhausted {
                    given.content.push(ContentBlock::text(EXHAUSTED));
                }
                given
            }
            Ok(Called::Exhausted) => CallToolResult::error(vec![ContentBlock::text(EXHAUSTED)]),
            Ok(Called::Refused(wrong)) => answer::problem(ctx, &Error::invalid(wrong), &tool.input_schema),
            Err(error) => answer::problem(ctx, &error, &tool.input_schema),
        }
    }

    async fn answer(&self, ctx: &Ctx, id: Uuid, new: NewRound, tool: &Tool) -> CallToolResult {
        let asking = ctx.clone();
        let ended = self.app.db.tenant(ctx.tenant, move |tx| calls::answer(tx, &asking, id, &new)).await;
        let ended = ended.and_then(|view| serde_json::to_value(view).map_err(Error::internal));
        answer::result(ctx, ended, &tool.input_schema)
    }

    /// Follows the session until it is finished, or nobody listens; calls `changed` when its tools do.
    async fn follow<F: Future<Output = bool>>(&self, caller: Caller, changed: impl Fn() -> F) {
        let Some(id) = caller.at else { return };
        let mut happened = self.app.db.listener(&events::topic(caller.ctx.tenant, id));
        let mut stopping = self.app.stopping.subscribe();
        let Some(mut status) = self.status(&caller.ctx, id).await else { return };
        while !status.is_finished() && next(&mut happened, &mut stopping).await {
            let Some(now) = self.status(&caller.ctx, id).await else { return };
            if now != status && !changed().await {
                return;
            }
            status = now;
        }
    }

    async fn status(&self, ctx: &Ctx, id: Uuid) -> Option<Status> {
        let asking = ctx.clone();
        let standing = self.app.db.tenant(ctx.tenant, move |tx| running::glance(tx, &asking, id)).await;
        standing.ok().map(|standing| standing.status)
    }
}

/// Waits until something happened; false when the server stops.
async fn next(happened: &mut watch::Receiver<()>, stopping: &mut watch::Receiver<bool>) -> bool {
    tokio::select! {
        woken = happened.changed() => woken.is_ok(),
        _ = stopping.wait_for(|stopping| *stopping) => false,
    }
}

/// The tools of a session where it stands.
fn tools(session: &SessionView) -> Vec<Tool> {
    match session.status {
        Status::Open => vec![retrieve(session), answer_tool()],
        Status::Exhausted => vec![answer_tool()],
        Status::Answered | Status::Failed | Status::Cancelled => Vec::new(),
    }
}

fn retrieve(session: &SessionView) -> Tool {
    let mut input = session.retrieve["requestMatch"].as_object().cloned().unwrap_or_default();
    input.insert("type".into(), "object".into());
    let most = session.retrieve["maxRounds"].as_u64().unwrap_or_default();
    let left = most.saturating_sub(u64::from(session.round));
    let place = match session.folder.as_str() {
        "" => format!("the slate `{}`", session.slate),
        folder => format!("the folder `{folder}` of the slate `{}`", session.slate),
    };
    let description = format!(
        "Fetch documents of {place}. Each call is one of {most} rounds; {left} are left, so ask for all that you need at once. \
         Nothing is given twice: what you have been given says `(already in context)`. When the rounds are spent this tool is \
         gone, and you call `answer`. To send a call again after a lost connection, send it with the same request id in the \
         same MCP session, or with `_meta` {{\"{ROUND}\": n}}, n being the round's number from 1: it is the same round, and \
         gives the same again."
    );
    with_output(
        Tool::new("retrieve", description, input).with_title("Retrieve").with_annotations(
            ToolAnnotations::with_title("Retrieve")
                .read_only(true)
                .destructive(false)
                .idempotent(false)
                .open_world(false),
        ),
    )
}

fn answer_tool() -> Tool {
    let members = json!({"answer": {"description": "The answer: a text, or any JSON value. It is kept exactly as it is given."}});
    let input = json!({"type": "object", "properties": members, "required": ["answer"], "additionalProperties": false});
    let description = format!(
        "Give the final answer, which ends the session. Sent again with the same request id in the same MCP session, or with \
         `_meta` {{\"{ROUND}\": n}}, it is the same answer."
    );
    let input: JsonObject = input.as_object().cloned().unwrap_or_default();
    with_output(
        Tool::new("answer", description, input).with_title("Answer").with_annotations(
            ToolAnnotations::with_title("Answer")
                .read_only(false)
                .destructive(false)
                .idempotent(false)
                .open_world(false),
        ),
    )
}

fn with_output(tool: Tool) -> Tool {
    match schemas::output("submit_round") {
        Some(schema) => tool.with_raw_output_schema(std::sync::Arc::new(schema)),
        None => tool,
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Answering {
    answer: Value,
}

/// The round that a call is: its output, which of the rounds, and what names the call.
fn round(
    output: Value,
    meta: &RequestMetaObject,
    message: &Extensions,
    id: &rmcp::model::RequestId,
) -> Result<NewRound> {
    let round = match meta.get(ROUND) {
        None | Some(Value::Null) => None,
        Some(value) => {
            let number = value.as_u64().and_then(|number| u32::try_from(number).ok()).filter(|n| *n > 0);
            Some(number.ok_or_else(|| {
                Error::invalid_at(
                    format!("/_meta/{}", ROUND.replace('/', "~1")),
                    "must be a round's number, from 1",
                )
            })?)
        }
    };
    // Without an MCP session ids begin anew with each connection, and name nothing.
    let key = mcp_session(message).map(|session| {
        let id = id.clone().into_json_value().to_string();
        format!("mcp {session} {}", hex(&Sha256::digest(id)[..16]))
    });
    Ok(NewRound { output, round, key: key.filter(|_| round.is_none()) })
}

impl ServerHandler for Rounds {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_tool_list_changed().build();
        let implementation = Implementation::new("slatebase-session", env!("CARGO_PKG_VERSION"));
        ServerConfig::new(capabilities).with_server_info(implementation).with_instructions(
            "A bounded session over one folder. Call `retrieve` for documents, each call being a round, and `answer` once \
             with your final answer. When the rounds are spent, only `answer` is left.",
        )
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let caller = caller(self.local, &context.extensions)?;
        let id = Rounds::at(&caller)?;
        let session = self.view(&caller.ctx, id).await.map_err(answer::refusal)?;
        Ok(ListToolsResult::with_all_items(tools(&session)))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let caller = caller(self.local, &context.extensions)?;
        let (id, ctx) = (Rounds::at(&caller)?, &caller.ctx);
        let session = self.view(ctx, id).await.map_err(answer::refusal)?;
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        let round = |output| round(output, &context.meta, &context.extensions, &context.id);
        let result = match &*request.name {
            "retrieve" => {
                let tool = retrieve(&session);
                match round(arguments) {
                    Ok(new) => self.retrieve(ctx, id, new, &tool).await,
                    Err(error) => answer::problem(ctx, &error, &tool.input_schema),
                }
            }
            "answer" => {
                let tool = answer_tool();
                let new = json::from_value::<Answering>(arguments).and_then(|given| round(given.answer));
                match new {
                    Ok(new) => self.answer(ctx, id, new, &tool).await,
                    Err(error) => answer::problem(ctx, &error, &tool.input_schema),
                }
            }
            other => {
                let text = format!("there is no tool `{other}` here: `retrieve` and `answer` are");
                return Err(ErrorData::invalid_params(text, None));
            }
        };
        Ok(result.into())
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        let Ok(caller) = caller(self.local, &context.extensions) else { return };
        let (server, peer) = (self.clone(), context.peer);
        tokio::spawn(async move {
            let gone = closed(&peer);
            tokio::select! {
                () = server.follow(caller, || async { peer.notify_tool_list_changed().await.is_ok() }) => {}
                () = gone => {}
            }
        });
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let caller = caller(self.local, &context.request_context().extensions)?;
        let sink = context.sink();
        tokio::select! {
            () = self.follow(caller, || async { sink.notify_tool_list_changed().await.is_ok() }) => {}
            () = context.cancelled() => {}
        }
        Ok(())
    }
}

/// Ends once nobody listens any more.
pub(super) async fn closed(peer: &Peer<RoleServer>) {
    while !peer.is_transport_closed() {
        tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    }
}
