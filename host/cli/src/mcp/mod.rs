//! This program as an MCP server: the tools and commands of plugins as it offers them.
//!
//! Clients' calls are decided on like a model's calls, see [`served_call`]. Tools that always need
//! approval are listed only for clients that can ask their user.

mod served_call;

use self::served_call::{ServedCalls, services_for_command};
use pinion_agent::approval::ApprovalMode;
use pinion_agent::futures_util::future::BoxFuture;
use pinion_agent::schema::Schemas;
use pinion_agent::served_tools::ServedTool;
use pinion_app::approve::permissions::CallPermissions;
use pinion_app::failure::Result;
use pinion_app::files::private::random_token;
use pinion_app::options::RunOptions;
use pinion_app::plugins::builtin::BRIDGE;
use pinion_app::plugins::sources::Purpose;
use pinion_app::run::notices::describe;
use pinion_app::workspace_base::Base;
use pinion_console::output::{note, text};
use pinion_mcp::serve::{Offered, OfferedCall, OfferedPrompt, OfferedReply, PromptCall, PromptPart, own_content};
use pinion_plugin_runtime::{HostAction, NoInfo, Notice, NoticeEvent, PluginSource, Runtime, Watch};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;
use tokio::sync::{Notify, watch};

/// Time between two looks at tools that change while their plugin runs.
const LOOK: Duration = Duration::from_secs(1);

/// The offer of a runtime. Cheap to clone.
#[derive(Clone)]
pub(crate) struct OfferedTools(Arc<Inner>);

struct Inner {
    runtime: Arc<Runtime>,
    permissions: Arc<CallPermissions>,
    calls: ServedCalls,
    /// Selects tools by their names.
    selects: Box<dyn Fn(&str) -> bool + Send + Sync>,
    mode: ApprovalMode,
    changed: watch::Sender<u64>,
}

impl OfferedTools {
    /// Loads the plugins and waits until each was loaded or refused.
    pub(crate) async fn load(base: &Base, options: &RunOptions, mode: ApprovalMode) -> Result<Self> {
        let loaded = Arc::new(Notify::new());
        let signal = loaded.clone();
        let runtime = Arc::new(base.runtime(base.begin_engine(), Arc::new(NoInfo), move |notice| {
            report(&notice);
            signal.notify_one();
        })?);
        runtime.begin_offers();
        // The servers of others are not passed on: one of them may be this very program.
        let mut sources = base.sources(options, Purpose::Run);
        sources.retain(|source| !matches!(source, PluginSource::BuiltIn { name: BRIDGE, .. }));
        runtime.add(sources).await;
        runtime.offers_settled().await;
        base.require_named(options, &runtime)?;
        base.require_checks(options, Purpose::Run, &runtime).await?;
        base.tell_permissions();
        base.permissions.without_undo();
        let session = format!("mcp-{}", random_token().unwrap_or_default().get(..16).unwrap_or_default());
        base.output.begin(&session, false);
        let calls = ServedCalls {
            tools: base.tools(options, runtime.clone())?,
            runtime: runtime.clone(),
            permissions: base.permissions.clone(),
            secrets: base.secrets.clone(),
            mode,
            session: session.into(),
            schemas: Arc::new(Schemas::default()),
            count: AtomicU32::new(0),
        };
        let selected = base.selected_tools(options);
        let inner = Inner {
            runtime,
            permissions: base.permissions.clone(),
            calls,
            selects: Box::new(move |name| selected.as_ref().is_none_or(|selects| selects(name))),
            mode,
            changed: watch::Sender::new(0),
        };
        let offered = Self(Arc::new(inner));
        tokio::spawn(follow(Arc::downgrade(&offered.0), loaded));
        Ok(offered)
    }

    /// Reloads plugins whose files change, as long as the result lives. Without it, calls still check their plugin's file.
    pub(crate) fn watch(&self, base: &Base, options: &RunOptions) -> Option<Watch> {
        let watch = self.0.runtime.watch(base.plugin_directories(options));
        watch.inspect_err(|error| note(&text!("! {}", error.to_string()))).ok()
    }

    /// Returns the names of the tools that only clients get that can ask their user.
    pub(crate) fn only_asked(&self) -> Vec<String> {
        let (all, unasked) = (self.0.tools(true), self.0.tools(false));
        let is_unasked = |tool: &ServedTool| unasked.iter().any(|other| other.definition.name == tool.definition.name);
        all.iter().filter(|tool| !is_unasked(tool)).map(|tool| tool.definition.name.clone()).collect()
    }
}

/// Announces changes: after each notice, and now and then where tools change while their plugin runs.
async fn follow(inner: std::sync::Weak<Inner>, loaded: Arc<Notify>) {
    let mut last = None;
    loop {
        {
            let Some(inner) = inner.upgrade() else { return };
            let now = (inner.runtime.served_tools(), inner.runtime.commands());
            if last.as_ref().is_some_and(|last| *last != now) {
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

/// Reports events of plugins on stderr, except for their first load.
fn report(notice: &Notice) {
    if !matches!(notice.event, NoticeEvent::Loaded { generation: 1, .. }) {
        note(&describe(notice));
    }
}

impl Inner {
    fn tools(&self, can_ask: bool) -> Vec<ServedTool> {
        let may_run = |tool: &ServedTool| match can_ask {
            true => !self.mode.denies(tool.definition.authority),
            false => self.permissions.may_allow(self.mode, &tool.definition),
        };
        let all = self.runtime.served_tools().into_iter();
        all.filter(|tool| (self.selects)(&tool.definition.name) && may_run(tool)).collect()
    }
}

impl Offered for OfferedTools {
    fn tools(&self, can_ask: bool) -> Vec<ServedTool> {
        self.0.tools(can_ask)
    }

    fn prompts(&self) -> Vec<OfferedPrompt> {
        let is_file = |source: &PluginSource| matches!(source, PluginSource::File { .. });
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
        let texts: Vec<String> = self.0.calls.tools.instructions().iter().map(|text| text.text.to_string()).collect();
        (!texts.is_empty()).then(|| texts.join("\n\n"))
    }

    fn changed(&self) -> watch::Receiver<u64> {
        self.0.changed.subscribe()
    }

    fn call(&self, call: OfferedCall) -> BoxFuture<'static, OfferedReply> {
        let inner = self.0.clone();
        Box::pin(async move { inner.calls.make(call).await })
    }

    fn prompt(&self, call: PromptCall) -> BoxFuture<'static, Result<Vec<PromptPart>, String>> {
        let inner = self.0.clone();
        Box::pin(async move {
            let PromptCall { name, arguments, token, services } = call;
            let services = services_for_command(services, inner.calls.secrets.clone());
            let running = inner.runtime.run_command(&name, &arguments, &inner.calls.session, Some(services), token);
            let actions = running.await.map_err(|error| error.to_string())?;
            let parts = actions.into_iter().flat_map(|action| match action {
                HostAction::Submit(text) | HostAction::Insert(text) | HostAction::Print(text) => {
                    vec![PromptPart::Text(text)]
                }
                HostAction::Unknown { name, argument: Some(argument) } => own_content(&name, &argument),
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
