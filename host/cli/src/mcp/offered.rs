//! The tools and commands of plugins as an MCP server offers them.
//!
//! A call passes the same checks as in a run: its arguments match the schema, its effects need no approval under the mode,
//! and the plugin has its grants and limits. Nobody can be asked, so what would need approval is not listed, and denied
//! when it is called all the same.

use crate::args::RunArgs;
use crate::base::Base;
use crate::failure::Result;
use crate::files::private::random_token;
use crate::output::{note, text};
use crate::plugins::builtin::BRIDGE;
use crate::plugins::sources::Purpose;
use crate::run::notices::describe;
use crate::run::rows::account;
use pinion_agent::approval::ApprovalMode;
use pinion_agent::futures_util::future::BoxFuture;
use pinion_agent::schema::Schemas;
use pinion_agent::serde_json::Value;
use pinion_agent::services::Services;
use pinion_agent::tool::{ToolError, ToolInvocation, ToolProgress, ToolReply};
use pinion_agent::{ToolDefinition, ToolExecutor};
use pinion_mcp::serve::{Offered, OfferedCall, OfferedPrompt, PromptCall, PromptPart, own_content};
use pinion_plugin_runtime::{Action, NoInfo, Notice, NoticeEvent, Runtime, Source, Watch};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

/// Maximum number of versions that replace a tool while it is called.
const MAX_RELOADS: usize = 3;
/// Time between two looks at tools that change while their plugin runs.
const LOOK: Duration = Duration::from_secs(1);

/// The offer of a runtime. Cheap to clone.
#[derive(Clone)]
pub(crate) struct OfferedTools(Arc<Inner>);

struct Inner {
    runtime: Arc<Runtime>,
    tools: Arc<dyn ToolExecutor>,
    schemas: Schemas,
    mode: ApprovalMode,
    session: Arc<str>,
    calls: AtomicU64,
    changed: watch::Sender<u64>,
}

impl OfferedTools {
    /// Loads the plugins and waits until each was loaded or refused.
    pub(crate) async fn load(base: &Base, args: &RunArgs, mode: ApprovalMode) -> Result<Self> {
        let loaded = Arc::new(Notify::new());
        let signal = loaded.clone();
        let runtime = Arc::new(base.runtime(base.begin_engine(), Arc::new(NoInfo), move |notice| {
            report(&notice);
            signal.notify_one();
        })?);
        runtime.begin_offers();
        // The servers of others are not passed on: one of them may be this very program.
        let mut sources = base.sources(args, Purpose::Run);
        sources.retain(|source| !matches!(source, Source::BuiltIn { name: BRIDGE, .. }));
        runtime.add(sources).await;
        runtime.offers_settled().await;
        base.require_named(args, &runtime)?;
        let tools = base.tools(args, runtime.clone())?;
        let session = format!("mcp-{}", random_token().unwrap_or_default().get(..16).unwrap_or_default());
        base.output.begin(&session, false);
        let inner = Inner {
            runtime,
            tools,
            schemas: Schemas::default(),
            mode,
            session: session.into(),
            calls: AtomicU64::new(0),
            changed: watch::Sender::new(0),
        };
        let offered = Self(Arc::new(inner));
        tokio::spawn(follow(Arc::downgrade(&offered.0), loaded));
        Ok(offered)
    }

    /// Reloads plugins whose files change, as long as the result lives. Without it, calls still check their plugin's file.
    pub(crate) fn watch(&self, base: &Base, args: &RunArgs) -> Option<Watch> {
        let watch = self.0.runtime.watch(base.plugin_directories(args));
        watch.inspect_err(|error| note(&text!("! {}", error.to_string()))).ok()
    }

    /// Returns the names of the tools that need approval.
    pub(crate) fn denied(&self) -> Vec<String> {
        let all = self.0.tools.definitions().into_iter();
        all.filter(|tool| self.0.mode.asks(tool.authority)).map(|tool| tool.name.clone()).collect()
    }
}

/// Announces changes: after each notice, and now and then where tools change while their plugin runs.
async fn follow(inner: std::sync::Weak<Inner>, loaded: Arc<Notify>) {
    let mut last: Option<Vec<Arc<ToolDefinition>>> = None;
    loop {
        {
            let Some(inner) = inner.upgrade() else { return };
            let now = inner.tools.definitions();
            let is_same = |last: &Vec<Arc<ToolDefinition>>| {
                last.len() == now.len()
                    && last.iter().zip(&now).all(|(a, b)| a.description == b.description && a.is_same_version(b))
            };
            if last.as_ref().is_some_and(|last| !is_same(last)) {
                inner.changed.send_modify(|number| *number += 1);
            }
            last = Some(now);
        }
        tokio::select! {
            () = loaded.notified() => {}
            () = tokio::time::sleep(LOOK) => {}
        }
    }
}

/// Reports what happens to plugins on stderr. Loading them is expected.
fn report(notice: &Notice) {
    if !matches!(notice.event, NoticeEvent::Loaded { generation: 1, .. }) {
        note(&describe(notice));
    }
}

impl Offered for OfferedTools {
    fn tools(&self) -> Vec<Arc<ToolDefinition>> {
        let all = self.0.tools.definitions().into_iter();
        all.filter(|tool| !self.0.mode.asks(tool.authority)).collect()
    }

    fn prompts(&self) -> Vec<OfferedPrompt> {
        let is_file = |source: &Source| matches!(source, Source::File { .. });
        let plugins = self.0.runtime.plugins().into_iter().filter(|plugin| is_file(&plugin.component_source));
        let names: Vec<String> = plugins.flat_map(|plugin| plugin.commands).collect();
        let commands = self.0.runtime.commands().into_iter().filter(|command| names.contains(&command.name));
        let prompt = |command: pinion_plugin_runtime::CommandDefinition| OfferedPrompt {
            name: command.name,
            description: command.description,
            argument_hint: command.argument_hint,
        };
        commands.map(prompt).collect()
    }

    fn instructions(&self) -> Option<String> {
        let texts: Vec<String> = self.0.tools.instructions().iter().map(|text| text.text.to_string()).collect();
        (!texts.is_empty()).then(|| texts.join("\n\n"))
    }

    fn changed(&self) -> watch::Receiver<u64> {
        self.0.changed.subscribe()
    }

    fn call(&self, call: OfferedCall) -> BoxFuture<'static, ToolReply> {
        let inner = self.0.clone();
        Box::pin(async move { inner.call(call).await })
    }

    fn prompt(&self, call: PromptCall) -> BoxFuture<'static, Result<Vec<PromptPart>, String>> {
        let inner = self.0.clone();
        Box::pin(async move {
            let PromptCall { name, arguments, token, services } = call;
            let running = inner.runtime.run_command(&name, &arguments, &inner.session, Some(services), token);
            let actions = running.await.map_err(|error| error.to_string())?;
            let parts = actions.into_iter().flat_map(|action| match action {
                Action::Submit(text) | Action::Insert(text) | Action::Print(text) => vec![PromptPart::Text(text)],
                Action::Unknown { name, argument: Some(argument) } => own_content(&name, &argument),
                _ => Vec::new(),
            });
            let parts: Vec<PromptPart> = parts.collect();
            match parts.is_empty() {
                true => Err(format!("`{name}` has an effect only in a conversation of pinion")),
                false => Ok(parts),
            }
        })
    }

    fn complete(&self, prompt: String, typed: String) -> BoxFuture<'static, Vec<String>> {
        let is_offered = self.prompts().iter().any(|offered| offered.name == prompt);
        if is_offered { self.completions(prompt, typed) } else { Box::pin(async { Vec::new() }) }
    }
}

impl OfferedTools {
    fn completions(&self, prompt: String, typed: String) -> BoxFuture<'static, Vec<String>> {
        let inner = self.0.clone();
        Box::pin(async move {
            let completions = inner.runtime.complete(&prompt, &typed).await;
            completions.into_iter().map(|completion| completion.value).collect()
        })
    }
}

impl Inner {
    /// Calls a tool. A client calls it by its name, so that a version that replaces it meanwhile gets the call, under the same rules.
    async fn call(&self, call: OfferedCall) -> ToolReply {
        let OfferedCall { mut tool, arguments, token, progress, services } = call;
        let mut reloads = 0;
        loop {
            let reply = self.call_version(&tool, &arguments, &token, &*progress, &services).await;
            if !matches!(reply.result, Err(ToolError::Changed { .. })) || reloads == MAX_RELOADS {
                return reply;
            }
            reloads += 1;
            match self.tools.definitions().into_iter().find(|current| current.name == tool.name) {
                Some(current) => tool = current,
                None => return reply,
            }
        }
    }

    async fn call_version(
        &self,
        tool: &Arc<ToolDefinition>,
        arguments: &Value,
        token: &CancellationToken,
        progress: &dyn ToolProgress,
        services: &Services,
    ) -> ToolReply {
        let name = tool.name.clone();
        if self.mode.asks(tool.authority) {
            let reason = "it needs approval, and nobody can be asked\nhint: `pinion mcp serve --approve all` allows it";
            return Err(ToolError::Denied { tool: name, reason: reason.to_owned() }).into();
        }
        let arguments = match self.schemas.check(tool, arguments).await {
            Ok(arguments) => arguments.into_owned(),
            Err(message) => return Err(ToolError::InvalidArguments { tool: name, message }).into(),
        };
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        let invocation = ToolInvocation {
            call_id: format!("mcp-{number}"),
            session_id: self.session.clone(),
            token: token.clone(),
            services: Some(services.clone()),
            ..ToolInvocation::alone(tool.clone(), arguments)
        };
        let reply = self.tools.call(invocation, progress).await;
        if let Some(ledger) = &reply.ledger {
            tracing::info!(tool = name, ledger = %account(ledger).as_str(), "served a call");
        }
        reply
    }
}
