//! `pinion plugin list`, `info` and `check`.

use crate::args::RunArgs;
use crate::base::Base;
use crate::failure::{Failure, Result};
use crate::output::bytes;
use crate::output::{Text, left, print, size, text, wrapped};
use crate::plugins::policy::{Target, shown};
use crate::plugins::sources::Purpose;
use crate::plugins::sources::identity;
use pinion_agent::schema::Schemas;
use pinion_agent::{ToolDefinition, ToolExecutor as _};
use pinion_plugin_runtime::{FileOrigin, Inspection, Lifetime, PluginInfo, Runtime, Source, read_component};
use serde_json::json;
use std::path::Path;
use std::sync::Arc;

pub(crate) async fn list(base: &Base) -> Result<()> {
    let runtime = base.showing(|_| {})?;
    runtime.add(base.sources(&RunArgs::default(), Purpose::Conversation)).await;
    let mut text = Text::default();
    for plugin in runtime.plugins() {
        let offers = offers(&plugin);
        let digest = plugin.digest.get(..12).unwrap_or_default();
        let (origin, grants) = (origin(&plugin.component_source), granted(&plugin));
        text.line(text!("{} {} {}", left(&plugin.name, 16), left(&plugin.version, 8), offers));
        text.line(text!("{}{} {}{}{}", left("", 17), plugin.source, digest, origin, grants));
        match (&plugin.held_back, grant_command(&plugin)) {
            (Some(why), _) => text.line(text!("{}! {}", left("", 17), why.replace('\n', "; "))),
            (None, Some(command)) => text.line(text!("{}! not granted: {}", left("", 17), command)),
            (None, None) => {}
        }
    }
    for (plugin, problem) in runtime.problems() {
        text.line(text!("{} not loaded: {}", left(plugin, 16), Text::block(problem)));
    }
    for notice in base.project_notices() {
        text.line(text!("! {}", Text::block(notice)));
    }
    print(&text)
}

/// Lists the grants of a plugin at the end of a row.
fn granted(plugin: &PluginInfo) -> String {
    let granted = plugin.capabilities.iter().filter(|capability| capability.granted.is_some());
    let granted: Vec<&str> = granted.map(|capability| capability.asks.as_str()).collect();
    if granted.is_empty() { String::new() } else { format!(", may {}", granted.join(", ")) }
}

/// Returns the words of the capabilities that a plugin asks for and was not granted, as on the command line.
pub(crate) fn missing(plugin: &PluginInfo) -> Vec<String> {
    let words = plugin.offered.asks.words();
    let asked = plugin.capabilities.iter().zip(words);
    asked.filter(|(capability, _)| capability.granted.is_none()).map(|(_, word)| word).collect()
}

/// Returns the command that grants a plugin what it still lacks; none if it lacks nothing, or if its grants are in the
/// config.
pub(crate) fn grant_command(plugin: &PluginInfo) -> Option<String> {
    let missing = missing(plugin);
    let name = match &plugin.component_source {
        Source::BuiltIn { .. } => return None,
        Source::File { origin: FileOrigin::User, .. } => plugin.name.clone(),
        Source::File { path, .. } => shown(path),
    };
    (!missing.is_empty()).then(|| format!("pinion plugin grant {name} {}", missing.join(" ")))
}

/// Names the origin of a file at the end of its row.
fn origin(source: &Source) -> String {
    match source {
        Source::BuiltIn { .. } => String::new(),
        Source::File { origin, .. } => format!(" ({})", origin.words()),
    }
}

fn offers(plugin: &PluginInfo) -> String {
    let commands = plugin.commands.iter().map(|name| format!("/{name}"));
    plugin.tools.iter().cloned().chain(commands).collect::<Vec<_>>().join(" ")
}

pub(crate) async fn info(base: &Base, plugin: &str) -> Result<()> {
    let (runtime, info) = find(base, plugin).await?;
    print(&about(&info, &runtime.definitions()))
}

/// Finds a plugin by name or file, in a runtime that runs nothing.
pub(crate) async fn find(base: &Base, plugin: &str) -> Result<(Runtime, PluginInfo)> {
    let (source, target) = locate(base, plugin);
    let runtime = base.showing(|_| {})?;
    let sources =
        source.map_or_else(|| base.sources(&RunArgs::default(), Purpose::Conversation), |source| vec![source]);
    runtime.add(sources).await;
    let found = runtime.plugins().into_iter().find(|info| is_target(info, &target));
    match found {
        Some(info) => Ok((runtime, info)),
        None => Err(not_found(plugin, &runtime)),
    }
}

/// Resolves the component that a command names, with its source if it is a file. A word that can be the name of a
/// plugin is a name even if a file is called so, because a repository could bring that file.
pub(crate) fn locate(base: &Base, plugin: &str) -> (Option<Source>, Target) {
    if is_name(plugin) {
        return (None, Target::Name(plugin.to_owned()));
    }
    match base.named(Path::new(plugin)) {
        Source::File { path, origin } if path.exists() => {
            let target = Target::File(identity(&path));
            (Some(Source::File { path, origin }), target)
        }
        _ => (None, Target::Name(plugin.to_owned())),
    }
}

/// Returns whether a word can be the name of a plugin.
pub(crate) fn is_name(word: &str) -> bool {
    !word.contains(['.', '/', '\\'])
}

pub(crate) fn is_target(info: &PluginInfo, target: &Target) -> bool {
    match (target, &info.component_source) {
        (Target::Name(name), _) => info.name == *name,
        (Target::File(file), Source::File { path, .. }) => identity(path) == *file,
        (Target::File(_), Source::BuiltIn { .. }) => false,
    }
}

pub(crate) fn not_found(plugin: &str, runtime: &Runtime) -> Failure {
    if let [(name, problem)] = &*runtime.problems() {
        return Failure::failed(format!("plugin `{name}` was not loaded: {problem}"));
    }
    let names: Vec<String> = runtime.plugins().into_iter().map(|info| info.name).collect();
    Failure::usage(format!("no plugin or file `{plugin}`")).hint(format!("the plugins are: {}", names.join(", ")))
}

fn about(info: &PluginInfo, tools: &[Arc<ToolDefinition>]) -> Text {
    let mut text = text!("{} {}\n", info.name, info.version);
    let room = size().map_or(usize::MAX, |(columns, _)| columns.saturating_sub(16).max(20));
    let mut line = |name: &str, value: &str| {
        let rows = wrapped(value, room).into_iter().enumerate();
        rows.for_each(|(at, row)| text.line(text!("  {} {}", left(if at == 0 { name } else { "" }, 12), row)));
    };
    line("about", &info.description);
    line("source", &format!("{}{}", info.source, origin(&info.component_source)));
    for capability in &info.capabilities {
        let granted = capability.granted.as_ref().map_or("not granted".to_owned(), |extent| format!("granted{extent}"));
        line("asks to", &format!("{}: {granted}", capability.asks));
    }
    line(
        "imports",
        &info.imports.iter().filter(|name| name.starts_with("pinion:")).cloned().collect::<Vec<_>>().join(" "),
    );
    for tool in tools.iter().filter(|tool| info.tools.contains(&tool.name)) {
        // All declared effects, granted or not: the grants are listed above.
        let declared = info.offered.tools.get(&tool.name).copied().unwrap_or_default();
        let can = Some(declared.words().join(", "))
            .filter(|words| !words.is_empty())
            .unwrap_or("declares no effects".to_owned());
        line("tool", &format!("{} ({can}): {}", tool.name, tool.description.lines().next().unwrap_or_default()));
    }
    line("commands", &info.commands.iter().map(|name| format!("/{name}")).collect::<Vec<_>>().join(" "));
    line("lifetime", if info.lifetime == Lifetime::Session { "session" } else { "call" });
    line("digest", &info.digest);
    if let Some(why) = &info.held_back {
        line("held back", &why.replace('\n', "; "));
    } else if let Some(command) = grant_command(info) {
        line("to grant", &command);
    }
    if let Some(problem) = &info.problem {
        line("problem", problem);
    }
    text
}

pub(crate) async fn check(base: &Base, file: &Path) -> Result<()> {
    let checked = examine(base, file).await?;
    print(&text!("{}{}ok\n", checked.about, checked.warnings))
}

/// A component that loads.
pub(crate) struct Checked {
    about: Text,
    pub(crate) warnings: Text,
}

/// Loads a component without granting it anything.
///
/// # Errors
/// It does not load, or a tool of it cannot be offered to a model.
pub(crate) async fn examine(base: &Base, file: &Path) -> Result<Checked> {
    let component =
        read_component(file).map_err(|error| Failure::usage(format!("`{}`", file.display())).because(error))?;
    let failed = |error: &dyn std::fmt::Display| Failure::failed(format!("`{}`: {error}", file.display()));
    let inspection = Inspection::of(&component).map_err(|error| failed(&error))?;
    let runtime = base.showing(|_| {})?;
    runtime.add(vec![base.named(file)]).await;
    let Some(info) = runtime.plugins().pop() else { return Err(not_found(&file.display().to_string(), &runtime)) };
    if info.digest != blake3::hash(&component).to_hex().as_str() {
        return Err(failed(&"it changed during the check"));
    }
    let tools = runtime.definitions();
    let warnings = warnings(&inspection, &tools).await?;
    let size = text!("  {} {}", left("size", 12), bytes(component.len() as u64));
    Ok(Checked { about: text!("{}{}\n", about(&info, &tools), size), warnings })
}

/// Describes problems of a component that loads all the same.
async fn warnings(inspection: &Inspection, tools: &[Arc<ToolDefinition>]) -> Result<Text> {
    let asks = &inspection.manifest.capabilities;
    let mut warnings = Text::default();
    for import in inspection.our_imports() {
        if !asks.covers_import(import) {
            warnings.line(text!("! imports `{}` without asking for it: every call is denied", import));
        }
    }
    for tool in tools {
        // Arguments that do not match are fine here; an invalid schema is not.
        if let Err(problem) = Schemas::default().check(tool, &json!({})).await
            && problem.contains("schema is broken")
        {
            return Err(Failure::failed(format!("tool `{}`: {problem}", tool.name)));
        }
        if tool.description.trim().is_empty() {
            warnings.line(text!("! tool `{}` has no description for the model", tool.name));
        }
    }
    Ok(warnings)
}
