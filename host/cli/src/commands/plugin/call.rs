//! `pinion plugin call`: one call of a tool, with its ledger.

use crate::commands::plugin::consent::{capabilities, parse_grants};
use crate::commands::plugin::show::{is_target, locate, missing, not_found};
use pinion_agent::schema::Schemas;
use pinion_agent::secrets::RedactedTools;
use pinion_agent::tool::{ToolError, ToolInvocation, ToolOutput, ToolProgress, ToolReply};
use pinion_agent::{Content, ToolExecutor as _};
use pinion_app::failure::{Failure, Result};
use pinion_app::options::RunOptions;
use pinion_app::plugins::policy::{Binding, CallGrants, GrantTarget, RuntimePolicy};
use pinion_app::plugins::sources::Purpose;
use pinion_app::run::notices::announce_compiling;
use pinion_app::workspace_base::Base;
use pinion_console::output::TerminalScreen;
use pinion_console::output::terminal::Style;
use pinion_console::output::{Text, answer, note, result, text, written};
use pinion_console::process::signals::interruptible_by;
use pinion_conversation::call_rows::account;
use pinion_devkit::link;
use pinion_plugin_runtime::{NoInfo, NoticeEvent, PluginInfo, PluginSource, Runtime, read_component, without_links};
use pinion_plugin_test::helpful_grants;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

/// Grants and settings of a call from the command line, in addition to the user's own.
#[derive(Debug, clap::Args)]
pub(crate) struct More {
    #[arg(long = "grant", value_name = "CAPABILITY", help = capabilities("Capability to add for the calls"))]
    grants: Vec<String>,
    /// Settings in place of the plugin's section of the config, as a JSON object
    ///
    /// A file that is not the installed plugin of its name does not get that plugin's settings.
    #[arg(long, value_name = "JSON")]
    settings: Option<String>,
}

impl More {
    fn config(&self) -> Result<Option<Value>> {
        let parse = |text: &String| match serde_json::from_str(text) {
            Ok(Value::Object(members)) => Ok(Value::Object(members)),
            Ok(_) => {
                Err(Failure::usage("settings are a JSON object").hint("for example --settings '{\"unit\": \"C\"}'"))
            }
            Err(error) => Err(Failure::usage("invalid JSON settings").because(error)),
        };
        self.settings.as_ref().map(parse).transpose()
    }
}

pub(crate) async fn run(
    base: &Base,
    plugin: &str,
    tool: &str,
    arguments: &str,
    more: &More,
    as_json: bool,
) -> Result<()> {
    let LoadedForCalls { runtime, info, _file } = load(base, plugin, more).await?;
    let call = prepare(&runtime, &info, tool, parse(arguments)?).await?;
    warn_of_unasked(base, &info, &more.grants)?;
    let tools = RedactedTools::new(Arc::new(runtime), base.secrets.clone());
    let token = call.token.clone();
    let (reply, _) = interruptible_by(move || token.cancel(), tools.call(call, &StderrProgress)).await;
    if as_json {
        let is_ok = reply.result.is_ok();
        written(result(&as_value(&reply)))?;
        return if is_ok { Ok(()) } else { Err(failure(reply.result, &info)) };
    }
    let style = Style::of_stderr();
    if let Some(ledger) = &reply.ledger {
        note(&style.dim(account(ledger)));
    }
    match reply.result {
        Ok(output) => written(answer(&content(&output))),
        result => Err(failure(result, &info)),
    }
}

/// Parses the arguments of a call.
pub(crate) fn parse(arguments: &str) -> Result<Value> {
    serde_json::from_str(arguments).map_err(|error| {
        Failure::usage("invalid JSON arguments").because(error).hint("for example '{\"path\": \"a.txt\"}'")
    })
}

/// Prepares a call of a tool of a plugin.
///
/// # Errors
/// The plugin has no such tool, or the arguments do not match its schema.
pub(crate) async fn prepare(
    runtime: &Runtime,
    info: &PluginInfo,
    tool: &str,
    arguments: Value,
) -> Result<ToolInvocation> {
    let tools = runtime.all_definitions();
    let own = || tools.iter().filter(|definition| *definition.source.plugin == *info.name);
    let Some(definition) = own().find(|definition| definition.name == tool) else {
        let names: Vec<&str> = own().map(|definition| definition.name.as_str()).collect();
        return Err(Failure::usage(format!("plugin `{}` has no tool `{tool}`", info.name))
            .hint(format!("its tools are: {}", names.join(", "))));
    };
    let arguments = Schemas::default().check(definition, &arguments).await.map_err(|problem| {
        Failure::usage(format!("the arguments do not match the schema: {problem}"))
            .hint(format!("the schema: {}", definition.input_schema))
    })?;
    Ok(ToolInvocation::alone(definition.clone(), arguments.into_owned()))
}

/// Reports grants that the plugin does not ask for, because they have no effect.
fn warn_of_unasked(base: &Base, info: &PluginInfo, grants: &[String]) -> Result<()> {
    if !info.offered.asks.covers(&parse_grants(base, grants)?.asks()) {
        let asks = info.offered.asks.spell_asks().join(" ");
        let asks = if asks.is_empty() { "nothing".to_owned() } else { asks };
        note(&text!("! plugin `{}` asks only for {}: other grants have no effect", info.name, asks));
    }
    Ok(())
}

fn failure(result: std::result::Result<ToolOutput, ToolError>, info: &PluginInfo) -> Failure {
    let Err(error) = result else { return Failure::failed("the call failed") };
    let (is_denied, text) = (matches!(error, ToolError::Denied { .. }), error.to_string());
    let failure = Failure::failed(error);
    let missing = helpful_grants(&text, &missing(info));
    match is_denied && !missing.is_empty() {
        true => failure.hint(format!("to grant it for one call: --grant {}", missing.join(" --grant "))),
        false => failure,
    }
}

/// Returns a reply for programs.
fn as_value(reply: &ToolReply) -> Value {
    match &reply.result {
        Ok(output) => {
            json!({ "text": output.to_text(), "details": output.details, "is_error": output.is_error, "ledger": reply.ledger })
        }
        Err(error) => json!({ "error": error.to_string(), "ledger": reply.ledger }),
    }
}

/// A plugin that was loaded for calls.
pub(crate) struct LoadedForCalls {
    pub(crate) runtime: Runtime,
    pub(crate) info: PluginInfo,
    /// The component of a core module, which each call looks at.
    pub(crate) _file: Option<TempDir>,
}

/// Loads the plugin with the grants of the command line, in addition to the user's, and with its settings.
pub(crate) async fn load(base: &Base, plugin: &str, more: &More) -> Result<LoadedForCalls> {
    let (mut source, mut target) = locate(base, plugin);
    let file = match &source {
        Some(PluginSource::File { path, .. }) => component_of_module(path)?,
        _ => None,
    };
    if let Some((_, component)) = &file {
        (source, target) = (Some(base.named(component)), GrantTarget::File(without_links(component)));
    }
    let (config, table) = (more.config()?, parse_grants(base, &more.grants)?);
    let is_needed = config.is_some() || !more.grants.is_empty();
    let call = CallGrants { target: target.clone(), grants: base.grants(&table), config };
    let policy = RuntimePolicy::new(base, Binding::Bind, Some(call).filter(|_| is_needed));
    let runtime = base.runtime_with(base.begin_engine(), policy, Arc::new(NoInfo), |notice| match notice.event {
        NoticeEvent::HeldBack(why) => {
            note(&text!("! plugin `{}` does not have all its grants: {}", notice.plugin, Text::block(why)));
        }
        _ => announce_compiling(&TerminalScreen, &notice),
    })?;
    let sources =
        source.map_or_else(|| base.sources(&RunOptions::default(), Purpose::Conversation), |source| vec![source]);
    runtime.begin_offers();
    runtime.add(sources).await;
    runtime.offers_settled().await;
    match runtime.plugins().into_iter().find(|info| is_target(info, &target)) {
        Some(info) => Ok(LoadedForCalls { runtime, info, _file: file.map(|(directory, _)| directory) }),
        None => Err(not_found(plugin, &runtime)),
    }
}

/// Makes a component of a core module, in a temporary directory, if the directory `wit` next to the module has its world.
/// `None` for components, and for modules without such a directory.
fn component_of_module(file: &Path) -> Result<Option<(TempDir, PathBuf)>> {
    let wit = file.with_file_name("wit");
    let Some(module) = read_component(file).ok().filter(|bytes| link::is_core_module(bytes) && wit.is_dir()) else {
        return Ok(None);
    };
    let component = link::component(module, &wit, None)?;
    let failed = |error: std::io::Error| Failure::failed("could not write a temporary file").because(error);
    let directory = tempfile::tempdir().map_err(failed)?;
    let path = directory.path().join(file.file_name().unwrap_or_else(|| "plugin.wasm".as_ref()));
    std::fs::write(&path, component).map_err(failed)?;
    Ok(Some((directory, path)))
}

/// Returns the output and its details for people.
fn content(output: &ToolOutput) -> String {
    let mut text = output.to_text();
    if let Some(details) = &output.details {
        text.push_str(&format!("details: {details}\n"));
    }
    text
}

/// Reports progress on stderr.
struct StderrProgress;

impl ToolProgress for StderrProgress {
    fn report(&self, message: String) {
        note(&text!("… {}", message));
    }

    fn update(&self, _partial: Vec<Content>) {}
}
