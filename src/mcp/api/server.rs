//! `/mcp`: the slates that a key may touch, as tools, resources and a prompt.

use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CompleteRequestParams, CompleteResult, ErrorData,
    GetPromptRequestParams, GetPromptResponse, Implementation, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ReadResourceRequestParams, ReadResourceResponse, ServerCapabilities, ServerConfig,
    SubscribeRequestParams, SubscriptionFilter, UnsubscribeRequestParams,
};
use rmcp::service::{RequestContext, SubscriptionContext};
use rmcp::{RoleServer, ServerHandler};

use super::watch::Watched;
use super::{answer, complete, prompts, resources, tools};
use crate::app::App;
use crate::mcp::runner::caller::{Local, caller};
use crate::mcp::runner::patient;

const INSTRUCTIONS: &str = "\
Knowledge in slates: files in folders, with metatags. `list_slates` and `browse` tell what there is, `describe` which \
metatags, `find` and `search` give documents that suit, `read` one of them. What is given has a citation: cite it, and check \
quotes by `check_quote`.";

/// Serves the slates.
#[derive(Clone)]
pub(super) struct Slates {
    pub app: App,
    pub local: Option<Local>,
    pub watched: Arc<Watched>,
}

impl Slates {
    pub fn new(app: App, local: Option<Local>) -> Slates {
        Slates { app, local, watched: Arc::default() }
    }
}

/// There is one page of what a server has few of.
fn only_page(request: Option<PaginatedRequestParams>) -> Result<(), ErrorData> {
    match request.and_then(|request| request.cursor) {
        None => Ok(()),
        Some(_) => {
            Err(ErrorData::invalid_params("the cursor is not one of this list, which has one page", None))
        }
    }
}

#[allow(deprecated, reason = "clients of all versions of the protocol are served")]
impl ServerHandler for Slates {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_prompts()
            .enable_completions()
            .enable_logging()
            .build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("slatebase", env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        only_page(request)?;
        let caller = caller(self.local, &context.extensions)?;
        Ok(ListToolsResult::with_all_items(tools::of(&caller.ctx)))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let caller = caller(self.local, &context.extensions)?;
        let Some(tool) = tools::find(&caller.ctx, &request.name) else {
            let text = format!(
                "there is no tool `{}` for this key; `tools/list` tells which there are",
                request.name
            );
            return Err(ErrorData::invalid_params(text, None));
        };
        let arguments = request.arguments.unwrap_or_default();
        tokio::select! {
            result = patient(tool.call(&self.app, &caller.ctx, arguments)) => Ok(result.into()),
            () = context.ct.cancelled() => Err(ErrorData::internal_error("the call was cancelled", None)),
        }
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let caller = caller(self.local, &context.extensions)?;
        let cursor = request.and_then(|request| request.cursor);
        patient(resources::list(&self.app, &caller.ctx, cursor)).await.map_err(answer::refusal)
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        only_page(request)?;
        Ok(ListResourceTemplatesResult::with_all_items(vec![resources::template()]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let caller = caller(self.local, &context.extensions)?;
        let read = patient(resources::read(&self.app, &caller.ctx, &request.uri)).await;
        read.map(Into::into).map_err(answer::refusal)
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let caller = caller(self.local, &context.extensions)?;
        patient(complete::complete(&self.app, &caller.ctx, request)).await.map_err(answer::refusal)
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        only_page(request)?;
        let caller = caller(self.local, &context.extensions)?;
        Ok(ListPromptsResult::with_all_items(prompts::of(&caller.ctx)))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let caller = caller(self.local, &context.extensions)?;
        let made = patient(prompts::get(&self.app, &caller.ctx, request)).await;
        made.map(Into::into).map_err(answer::refusal)
    }

    /// Nothing is logged to clients, at whatever level.
    async fn set_level(
        &self,
        _: rmcp::model::SetLevelRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let caller = caller(self.local, &context.extensions)?;
        self.watched.add(&self.app, &caller.ctx, request.uri).await.map_err(answer::refusal)?;
        let (watched, app, peer) = (self.watched.clone(), self.app.clone(), context.peer);
        tokio::spawn(async move { watched.tell(app, caller.ctx, peer).await });
        Ok(())
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.watched.remove(&request.uri);
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let caller = caller(self.local, &context.request_context().extensions)?;
        let watched = Watched::default();
        for uri in context.accepted().resource_subscriptions.clone().unwrap_or_default() {
            watched.add(&self.app, &caller.ctx, uri).await.map_err(answer::refusal)?;
        }
        let sink = context.sink();
        tokio::select! {
            () = watched.follow(&self.app, caller.ctx, |uri| async move {
                sink.notify_resource_updated(uri).await.is_ok()
            }) => {}
            () = context.cancelled() => {}
        }
        Ok(())
    }
}
