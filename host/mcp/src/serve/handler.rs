//! The requests of clients.

use super::changes::OfferSnapshot;
use super::convert::{self, prompt, result, tool};
use super::held_requests::RequestStep;
use super::lines::TOO_LONG;
use super::question::shows_forms;
use super::request::FinishedRequest;
use super::{Begin, LIST_TTL_MS, MAX_LINE, OfferedCall, PromptCall, Server, resources};
use futures_util::future::BoxFuture;
use pinion_protocol::{ServedTool, TaskSupport};
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CancelTaskParams, ClientCapabilities, CompleteRequestParams,
    CompleteResult, CompletionInfo, CustomRequest, CustomResult, ErrorCode, ErrorData, GetPromptRequestParams,
    GetPromptResponse, GetPromptResult, GetTaskParams, GetTaskResult, Implementation, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams, PromptMessage,
    ReadResourceRequestParams, ReadResourceResponse, Role, ServerCapabilities, ServerConfig, SubscriptionFilter, Tool,
    UpdateTaskParams,
};
use rmcp::service::{NotificationContext, RequestContext, RoleServer, SubscriptionContext};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::PoisonError;

/// Resources that a client can subscribe to.
const MAX_SUBSCRIBED: usize = 256;

impl Server {
    /// Prepares a call of a tool.
    fn call(&self, tool: &ServedTool, arguments: Value) -> Begin {
        let (offered, tool) = (self.offered.clone(), tool.definition.clone());
        Box::new(move |token, progress, client| {
            let running = offered.call(OfferedCall { tool, arguments, token, progress, client });
            Box::pin(async move { FinishedRequest::Call(Box::new(running.await)) })
                as BoxFuture<'static, FinishedRequest>
        })
    }
}

fn not_found(uri: &str) -> ErrorData {
    ErrorData::resource_not_found("no such resource", Some(json!({ "uri": uri })))
}

/// The error of a step that belongs to another kind of request.
fn other_request() -> ErrorData {
    ErrorData::internal_error("another request", None)
}

impl ServerHandler for Server {
    #[expect(deprecated, reason = "clients still read logs")]
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_resources()
            .enable_resources_list_changed()
            .enable_resources_subscribe()
            .enable_completions()
            .enable_logging()
            .enable_tasks()
            .build();
        let info = ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("pinion", env!("CARGO_PKG_VERSION")).with_title("Pinion"));
        match self.offered.instructions() {
            Some(instructions) => info.with_instructions(instructions),
            None => info,
        }
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        match request.method.as_str() {
            TOO_LONG => Err(ErrorData::invalid_request(format!("the message has more than {MAX_LINE} bytes"), None)),
            _ => Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method, None)),
        }
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = self.tools(&context).into_iter().filter(ServedTool::is_callable);
        let tools = tools.map(|served| tool(&served.definition)).collect();
        Ok(ListToolsResult::with_all_items(tools).with_ttl_ms(LIST_TTL_MS).with_cache_scope(CacheScope::Private))
    }

    /// Returns a tool, whose arguments are then compared with the headers of a request.
    fn get_tool(&self, name: &str) -> Option<Tool> {
        let found = self.offered.tools(true).into_iter().find(|tool| tool.definition.name == name)?;
        Some(tool(&found.definition))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let mut tools = self.tools(&context).into_iter().filter(ServedTool::is_callable);
        let Some(tool) = tools.find(|tool| tool.definition.name == request.name) else {
            return Err(ErrorData::invalid_params(format!("no tool `{}`", request.name), None));
        };
        let client = context.client_capabilities().unwrap_or_default();
        let may_be_task = client.supports_tasks() && tool.task != TaskSupport::None && self.tasks.have_room();
        if tool.task == TaskSupport::Required && !client.supports_tasks() {
            let needed = ClientCapabilities::builder().enable_tasks().build();
            return Err(ErrorData::missing_required_client_capability(needed));
        }
        let subject = format!("tools/call {}", request.name);
        let begin = self.call(&tool, Value::Object(request.arguments.unwrap_or_default()));
        let (state, given) = (request.request_state, request.input_responses);
        match self.step(subject, state, given, may_be_task, &context, begin).await? {
            RequestStep::Done(FinishedRequest::Call(reply)) => Ok(CallToolResponse::Complete(result(*reply))),
            RequestStep::Done(FinishedRequest::Prompt(_)) => Err(other_request()),
            RequestStep::Ask(required) => Ok(required.into()),
            RequestStep::Task(call) => Ok(self.tasks.begin(*call, client, self.calls.clone())?.into()),
        }
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let listed = ListResourcesResult::with_all_items(resources::listed(&self.tools(&context)));
        Ok(listed.with_ttl_ms(LIST_TTL_MS).with_cache_scope(CacheScope::Private))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let listed = ListResourceTemplatesResult::with_all_items(resources::templates(&self.tools(&context)));
        Ok(listed.with_ttl_ms(LIST_TTL_MS).with_cache_scope(CacheScope::Private))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let (uri, tools) = (request.uri, self.tools(&context));
        let (tool, arguments) = resources::find(&tools, &uri).ok_or_else(|| not_found(&uri))?;
        let (subject, begin) = (format!("resources/read {uri}"), self.call(tool, arguments));
        let (state, given) = (request.request_state, request.input_responses);
        match self.step(subject, state, given, false, &context, begin).await? {
            RequestStep::Done(FinishedRequest::Call(reply)) => {
                Ok(resources::contents(&uri, tool.resource.as_deref(), *reply)?.into())
            }
            RequestStep::Ask(required) => Ok(required.into()),
            RequestStep::Done(FinishedRequest::Prompt(_)) | RequestStep::Task(_) => Err(other_request()),
        }
    }

    async fn subscribe(
        &self,
        request: rmcp::model::SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        resources::find(&self.tools(&context), &request.uri).ok_or_else(|| not_found(&request.uri))?;
        let mut subscribed = self.session.subscribed();
        if subscribed.len() >= MAX_SUBSCRIBED && !subscribed.contains(&request.uri) {
            return Err(ErrorData::invalid_params(format!("more than {MAX_SUBSCRIBED} subscriptions"), None));
        }
        subscribed.insert(request.uri);
        Ok(())
    }

    async fn unsubscribe(
        &self,
        request: rmcp::model::UnsubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.session.subscribed().remove(&request.uri);
        Ok(())
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        self.tasks.get(&request.task_id)
    }

    async fn update_task(&self, request: UpdateTaskParams, _: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        self.tasks.update(&request.task_id, request.input_responses)
    }

    async fn cancel_task(&self, request: CancelTaskParams, _: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        self.tasks.cancel(&request.task_id)
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let prompts = self.offered.prompts().iter().map(prompt).collect();
        Ok(ListPromptsResult::with_all_items(prompts).with_ttl_ms(LIST_TTL_MS).with_cache_scope(CacheScope::Private))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let Some(offered) = self.offered.prompts().into_iter().find(|prompt| prompt.name == request.name) else {
            return Err(ErrorData::invalid_params(format!("no prompt `{}`", request.name), None));
        };
        let subject = format!("prompts/get {}", request.name);
        let invalid = |error| ErrorData::invalid_params(error, None);
        let arguments = convert::line(&offered, request.arguments.unwrap_or_default()).map_err(invalid)?;
        let (offered, name) = (self.offered.clone(), request.name);
        let begin: Begin = Box::new(move |token, _, client| {
            let running = offered.prompt(PromptCall { name, arguments, token, services: client.services() });
            Box::pin(async move { FinishedRequest::Prompt(running.await) }) as BoxFuture<'static, FinishedRequest>
        });
        let (state, given) = (request.request_state, request.input_responses);
        let parts = match self.step(subject, state, given, false, &context, begin).await? {
            RequestStep::Done(FinishedRequest::Prompt(parts)) => parts.map_err(invalid)?,
            RequestStep::Ask(required) => return Ok(required.into()),
            RequestStep::Done(FinishedRequest::Call(_)) | RequestStep::Task(_) => return Err(other_request()),
        };
        let message = |part| Some(PromptMessage::new(Role::User, convert::prompt_part(part)?));
        Ok(GetPromptResult::new(parts.into_iter().filter_map(message).collect()).into())
    }

    #[expect(deprecated, reason = "clients of older protocols ask for logs in this way")]
    async fn set_level(
        &self,
        request: rmcp::model::SetLevelRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        *self.session.least.lock().unwrap_or_else(PoisonError::into_inner) = convert::severity(request.level);
        Ok(())
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let Some(name) = request.r#ref.as_prompt_name() else { return Ok(CompleteResult::default()) };
        let offered = self.offered.prompts().into_iter().find(|prompt| prompt.name == name);
        let values = request.context.and_then(|context| context.arguments).unwrap_or_default();
        let before = offered.and_then(|offered| convert::typed_before(&offered, &request.argument.name, &values));
        let Some(before) = before else { return Ok(CompleteResult::default()) };
        // Plugins complete the whole line.
        let lines = self.offered.complete(name.to_owned(), format!("{before}{}", request.argument.value)).await;
        let values = lines.into_iter().filter_map(|line| line.strip_prefix(&before).map(str::to_owned));
        let values = values.take(CompletionInfo::MAX_VALUES).collect();
        let completion = CompletionInfo::new(values).map_err(|error| ErrorData::internal_error(error, None))?;
        Ok(CompleteResult::new(completion))
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        let mut accepted = requested.supported_by(&self.get_info().capabilities);
        if let Some(wanted) = &mut accepted.resource_subscriptions {
            wanted.retain(|uri| uri.len() <= resources::MAX_URI);
            wanted.truncate(MAX_SUBSCRIBED);
        }
        Some(accepted)
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let can_ask = context.request_context().client_capabilities().is_some_and(|client| shows_forms(&client));
        let wanted: BTreeSet<_> = context.accepted().resource_subscriptions.iter().flatten().cloned().collect();
        let mut changed = self.offered.changed();
        let mut last = OfferSnapshot::from_offered(&*self.offered, can_ask);
        loop {
            tokio::select! {
                () = context.cancelled() => return Ok(()),
                () = self.token.cancelled() => return Ok(()),
                next = changed.changed() => if next.is_err() { return Ok(()) },
            }
            let now = OfferSnapshot::from_offered(&*self.offered, can_ask);
            let changes = last.changes(&now, &wanted);
            last = now;
            if changes.notify_subscription(context.sink()).await.is_err() {
                return Ok(());
            }
        }
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        self.announce(context.peer);
    }
}
