//! `pinion plugin call`: one call of a tool, with its ledger.

use crate::compose::Base;
use crate::failure::{Failure, Result};
use crate::plugin::grant;
use crate::plugin::show::{no_options, not_found};
use crate::print_out;
use crate::render::account;
use crate::terminal::Style;
use pinion_agent::{
    Authority, Content, RedactedTools, Schemas, ToolExecutor as _, ToolInvocation, ToolOutput, ToolProgress,
};
use pinion_plugin_runtime::{Inspection, NoInfo, Runtime, RuntimeConfig, Source};
use serde_json::Value;
use std::io::{self, Write as _};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

pub(crate) async fn run(base: &Base, plugin: &str, tool: &str, arguments: &str, grants: &[String]) -> Result<()> {
    let arguments: Value = serde_json::from_str(arguments).map_err(|error| {
        Failure::usage(format!("the arguments are not JSON: {error}")).hint("such as '{\"path\": \"a.txt\"}'")
    })?;
    let runtime = runtime(base, plugin, grants).await?;
    let there = runtime.definitions();
    let Some(definition) = there.iter().find(|definition| definition.name == tool) else {
        let names: Vec<&str> = there.iter().map(|definition| definition.name.as_str()).collect();
        return Err(Failure::usage(format!("plugin `{plugin}` has no tool `{tool}`"))
            .hint(format!("it has: {}", names.join(", "))));
    };
    let arguments = Schemas::default().check(definition, &arguments).map_err(|problem| {
        Failure::usage(format!("the arguments do not fit: {problem}"))
            .hint(format!("the schema: {}", definition.input_schema))
    })?;
    let token = CancellationToken::new();
    let call = ToolInvocation {
        call_id: "call".to_owned(),
        session_id: "none".into(),
        loop_id: "none".into(),
        name: tool.to_owned(),
        arguments: arguments.into_owned(),
        at_most: Authority::ALL,
        agents: None,
        token: token.clone(),
    };
    let tools = RedactedTools::new(Arc::new(runtime), base.secrets.clone());
    let calling = tools.call(call, &Stderr);
    tokio::pin!(calling);
    let reply = tokio::select! {
        reply = &mut calling => reply,
        _ = tokio::signal::ctrl_c() => {
            token.cancel();
            calling.await
        }
    };
    let style = Style::of_stderr();
    if let Some(ledger) = &reply.ledger {
        let _ = writeln!(io::stderr(), "{}", style.dim(account(ledger)));
    }
    match reply.result {
        Ok(output) => print_out(&text(&output)),
        Err(error) => Err(Failure::failed(error)),
    }
}

/// The plugin alone, with what the config and the command line grant it.
async fn runtime(base: &Base, plugin: &str, grants: &[String]) -> Result<Runtime> {
    let file = base.workspace.join(plugin);
    let (source, name) = if file.is_file() {
        let bytes = std::fs::read(&file).map_err(|e| Failure::usage(format!("could not read `{plugin}`: {e}")))?;
        let inspection = Inspection::of(&bytes).map_err(|error| Failure::failed(format!("`{plugin}`: {error}")))?;
        (Some(Source::File(file)), inspection.manifest.name)
    } else {
        (None, plugin.to_owned())
    };
    let mut plugins = base.plugin_settings();
    grant::add(base, &mut plugins.entry(name.clone()).or_default().grants, grants)?;
    let runtime = Runtime::new(
        RuntimeConfig {
            workspace: base.workspace.clone(),
            cache: base.compiled_code(),
            plugins,
            engine_limits: base.config.engine_limits.clone(),
            info: Arc::new(NoInfo),
        },
        |_| {},
    );
    let runtime = runtime.map_err(|error| Failure::failed(crate::failure::chain(&error)))?;
    let sources = source.map_or_else(|| base.sources(&no_options(), crate::compose::For::Conversation), |s| vec![s]);
    runtime.add(sources).await;
    match runtime.plugins().iter().any(|info| info.name == name) {
        true => Ok(runtime),
        false => Err(not_found(plugin, &runtime)),
    }
}

fn text(output: &ToolOutput) -> String {
    let mut text = String::new();
    for part in &output.content {
        match part {
            Content::Text { text: part } => text.push_str(part),
            Content::Image(image) => text.push_str(&format!("[{}, {} bytes]", image.media_type, image.data.len())),
            Content::Thinking(_) | Content::ToolCall(_) => {}
        }
        if !text.ends_with('\n') {
            text.push('\n');
        }
    }
    if let Some(details) = &output.details {
        text.push_str(&format!("details: {details}\n"));
    }
    text
}

/// Progress goes to stderr.
struct Stderr;

impl ToolProgress for Stderr {
    fn report(&self, message: String) {
        let _ = writeln!(io::stderr(), "… {}", pinion_session_store::printable(&message));
    }

    fn update(&self, _partial: Vec<Content>) {}
}
