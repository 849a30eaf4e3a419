//! `pinion plugin list`, `info` and `check`.

use super::packages::installed_parts;
use pinion_agent::ToolDefinition;
use pinion_agent::schema::Schemas;
use pinion_app::failure::{Failure, Result};
use pinion_app::options::RunOptions;
use pinion_app::plugins::policy::{GrantTarget, shown};
use pinion_app::plugins::sources::Purpose;
use pinion_app::workspace_base::Base;
use pinion_console::output::bytes;
use pinion_console::output::{Text, json, left, print, size, text, wrapped, written};
use pinion_plugin_runtime::{
    API_VERSION, FileOrigin, Inspection, Lifetime, PluginInfo, PluginSource, Runtime, read_component, without_links,
};
use serde_json::json;
use std::path::Path;
use std::sync::Arc;

pub(crate) async fn list(base: &Base, as_json: bool) -> Result<()> {
    let runtime = base.showing()?;
    runtime.add(base.sources(&RunOptions::default(), Purpose::Conversation)).await;
    if as_json {
        return written(json(&all(&runtime, &base.project_notices())));
    }
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
        if let Some(silent) = silent_hooks(&plugin) {
            text.line(text!("{}! {}", left("", 17), silent));
        }
        plugin.left_out.iter().for_each(|what| text.line(text!("{}! left out: {}", left("", 17), what)));
    }
    for (plugin, problem) in runtime.problems() {
        text.line(text!("{} not loaded: {}", left(plugin, 16), Text::block(problem)));
    }
    for notice in base.project_notices() {
        text.line(text!("! {}", Text::block(notice)));
    }
    print(&text)
}

/// The list of plugins for programs.
fn all(runtime: &Runtime, notices: &[String]) -> serde_json::Value {
    let tools = runtime.all_definitions();
    let plugins: Vec<_> = runtime.plugins().iter().map(|info| details(info, &tools)).collect();
    let problems = runtime.problems();
    let problems: Vec<_> =
        problems.iter().map(|(plugin, problem)| json!({ "plugin": plugin, "problem": problem })).collect();
    json!({ "plugins": plugins, "not_loaded": problems, "notices": notices })
}

/// Lists the grants of a plugin at the end of a row.
fn granted(plugin: &PluginInfo) -> String {
    let granted = plugin.capabilities.iter().filter(|capability| capability.granted.is_some());
    let granted: Vec<&str> = granted.map(|capability| capability.asks.as_str()).collect();
    if granted.is_empty() { String::new() } else { format!(", may {}", granted.join(", ")) }
}

/// Returns the words of the capabilities that a plugin asks for and was not granted, as on the command line.
pub(crate) fn missing(plugin: &PluginInfo) -> Vec<String> {
    let words = plugin.offered.asks.spell_asks();
    let asked = plugin.capabilities.iter().zip(words);
    asked.filter(|(capability, _)| capability.granted.is_none()).map(|(_, word)| word).collect()
}

/// Returns the command that grants a plugin its missing capabilities; `None` if it lacks nothing, or if its grants are
/// in the config.
pub(crate) fn grant_command(plugin: &PluginInfo) -> Option<String> {
    let missing = missing(plugin);
    let name = match &plugin.component_source {
        PluginSource::BuiltIn { .. } => return None,
        PluginSource::File { origin: FileOrigin::User, .. } => plugin.name.clone(),
        PluginSource::File { path, .. } => shown(path),
    };
    (!missing.is_empty()).then(|| format!("pinion plugin grant {name} {}", missing.join(" ")))
}

/// Names the origin of a file at the end of its row.
fn origin(source: &PluginSource) -> String {
    match source {
        PluginSource::BuiltIn { .. } => String::new(),
        PluginSource::File { origin, .. } => format!(" ({})", origin.describe_origin()),
    }
}

fn offers(plugin: &PluginInfo) -> String {
    let commands = plugin.commands.iter().map(|name| format!("/{name}"));
    let hooks = plugin.hooks.iter().map(|hook| hook.point.name().to_owned());
    plugin.tools.iter().cloned().chain(commands).chain(hooks).collect::<Vec<_>>().join(" ")
}

/// Describes the hooks of a plugin that are not called.
pub(crate) fn silent_hooks(plugin: &PluginInfo) -> Option<String> {
    let silent = plugin.hooks.iter().filter_map(|hook| Some(format!("`{}` ({})", hook.point.name(), hook.not_called?)));
    let silent: Vec<String> = silent.collect();
    (!silent.is_empty()).then(|| format!("hooks that are never called: {}", silent.join(", ")))
}

pub(crate) async fn info(base: &Base, plugin: &str, as_json: bool) -> Result<()> {
    let package = installed_parts(base, plugin)?;
    let (runtime, info) = match (find(base, plugin).await, &package) {
        (Ok(found), _) => found,
        // A package need not have a component.
        (Err(_), Some(package)) if as_json => return written(json(&json!({ "package": package.report }))),
        (Err(_), Some(package)) => return print(&package.text),
        (Err(failure), None) => return Err(failure),
    };
    if as_json {
        let mut report = details(&info, &runtime.all_definitions());
        if let Some(package) = package {
            report["package"] = package.report;
        }
        return written(json(&report));
    }
    let mut text = about(&info, &runtime.all_definitions());
    package.iter().for_each(|package| text.push(&package.text));
    print(&text)
}

/// Finds a plugin by name or file, in a runtime that runs nothing.
pub(crate) async fn find(base: &Base, plugin: &str) -> Result<(Runtime, PluginInfo)> {
    let (source, target) = locate(base, plugin);
    let runtime = base.showing()?;
    let sources =
        source.map_or_else(|| base.sources(&RunOptions::default(), Purpose::Conversation), |source| vec![source]);
    runtime.add(sources).await;
    let found = runtime.plugins().into_iter().find(|info| is_target(info, &target));
    match found {
        Some(info) => Ok((runtime, info)),
        None => Err(not_found(plugin, &runtime)),
    }
}

/// Resolves the component that a command names, with its source if it is a file. A word that can be the name of a
/// plugin is a name even if a file is called so, because a repository could bring that file.
pub(crate) fn locate(base: &Base, plugin: &str) -> (Option<PluginSource>, GrantTarget) {
    if is_name(plugin) {
        return (None, GrantTarget::Name(plugin.to_owned()));
    }
    match base.named(Path::new(plugin)) {
        PluginSource::File { path, origin } if path.exists() => {
            let target = GrantTarget::File(without_links(&path));
            (Some(PluginSource::File { path, origin }), target)
        }
        _ => (None, GrantTarget::Name(plugin.to_owned())),
    }
}

/// Returns whether a word can be the name of a plugin.
pub(crate) fn is_name(word: &str) -> bool {
    !word.contains(['.', '/', '\\'])
}

pub(crate) fn is_target(info: &PluginInfo, target: &GrantTarget) -> bool {
    match (target, &info.component_source) {
        (GrantTarget::Name(name), _) => info.name == *name,
        (GrantTarget::File(file), PluginSource::File { path, .. }) => without_links(path) == *file,
        (GrantTarget::File(_), PluginSource::BuiltIn { .. }) => false,
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
        let can = Some(declared.effect_names().join(", "))
            .filter(|words| !words.is_empty())
            .unwrap_or("declares no effects".to_owned());
        let granted = match () {
            () if declared == tool.authority => String::new(),
            () if tool.authority.effect_names().is_empty() => ", nothing of it granted".to_owned(),
            () => format!(", granted: {}", tool.authority.effect_names().join(", ")),
        };
        let about = tool.description.lines().next().unwrap_or_default();
        line("tool", &format!("{} ({can}){granted}: {about}", tool.name));
    }
    line("commands", &info.commands.iter().map(|name| format!("/{name}")).collect::<Vec<_>>().join(" "));
    info.left_out.iter().for_each(|what| line("left out", what));
    info.skipped.iter().for_each(|what| line("skipped", what));
    for hook in &info.hooks {
        let called = hook.not_called.map_or("called".to_owned(), |why| format!("never called: {why}"));
        line("hook", &format!("{} ({called})", hook.point.name()));
    }
    line("lifetime", info.lifetime.name());
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

pub(crate) async fn check(base: &Base, file: &Path, as_json: bool) -> Result<()> {
    let checked = examine(base, file).await?;
    match as_json {
        true => written(json(&checked.report)),
        false => print(&text!("{}{}ok\n", checked.about, checked.warnings())),
    }
}

/// A component that loads.
pub(crate) struct Checked {
    about: Text,
    /// The same for programs.
    report: serde_json::Value,
    pub(crate) warnings: Vec<String>,
}

impl Checked {
    /// Lists the warnings, one in a line.
    pub(crate) fn warnings(&self) -> Text {
        let mut text = Text::default();
        self.warnings.iter().for_each(|warning| text.line(text!("! {}", warning)));
        text
    }
}

/// Examines a component that is not yet where it will be.
///
/// # Errors
/// As for [`examine`], in the name of `file`.
pub(crate) async fn examine_bytes(base: &Base, component: &[u8], file: &Path) -> Result<Checked> {
    let failed = |error: std::io::Error| Failure::failed("could not write a temporary file").because(error);
    let directory = tempfile::tempdir().map_err(failed)?;
    let copy = directory.path().join(file.file_name().unwrap_or_else(|| "plugin.wasm".as_ref()));
    std::fs::write(&copy, component).map_err(failed)?;
    examine(base, &copy).await
}

/// Loads a component that is not installed without granting it anything, and returns its tools.
///
/// # Errors
/// As for [`examine`].
pub(crate) async fn describe(
    base: &Base,
    component: &[u8],
    name: &str,
) -> Result<(PluginInfo, Vec<Arc<ToolDefinition>>)> {
    let failed = |error: std::io::Error| Failure::failed("could not write a temporary file").because(error);
    let directory = tempfile::tempdir().map_err(failed)?;
    let copy = directory.path().join(Path::new(name).file_name().unwrap_or_else(|| "plugin.wasm".as_ref()));
    std::fs::write(&copy, component).map_err(failed)?;
    let runtime = base.showing()?;
    runtime.add(vec![base.named(&copy)]).await;
    let info = runtime.plugins().pop().ok_or_else(|| not_found(name, &runtime))?;
    let tools = runtime.all_definitions();
    Ok((info, tools))
}

/// Loads a component without granting it anything.
///
/// # Errors
/// It does not load, or a tool of it cannot be offered to a model.
pub(crate) async fn examine(base: &Base, file: &Path) -> Result<Checked> {
    let component =
        read_component(file).map_err(|error| Failure::usage(format!("`{}`", file.display())).because(error))?;
    let failed = |error: &dyn std::fmt::Display| Failure::failed(format!("`{}`: {error}", file.display()));
    let inspection = Inspection::from_file(&component, file).map_err(|error| failed(&error))?;
    let runtime = base.showing()?;
    runtime.add(vec![base.named(file)]).await;
    let Some(info) = runtime.plugins().pop() else {
        let failure = not_found(&file.display().to_string(), &runtime);
        let hint = link_hint(&failure.message());
        return Err(hint.into_iter().fold(failure, Failure::hint));
    };
    if info.digest != blake3::hash(&component).to_hex().as_str() {
        return Err(failed(&"it changed during the check"));
    }
    let tools = runtime.all_definitions();
    let warnings = warnings(&inspection, &info, &tools).await?;
    let size = text!("  {} {}", left("size", 12), bytes(component.len() as u64));
    let report = report(&info, &tools, component.len(), &warnings);
    Ok(Checked { about: text!("{}{}\n", about(&info, &tools), size), report, warnings })
}

/// Returns the remedy for a component that a toolchain linked against interfaces that no host of plugins has.
fn link_hint(message: &str) -> Option<&'static str> {
    const HINTS: &[(&str, &str)] = &[
        (
            "component model async feature",
            "build without the asynchronous runtime: jco componentize --backend-qjs-disable-async",
        ),
        (
            "jco:node/",
            "the modules of Node.js do not exist in plugins: read files with `pinion:plugin/workspace` instead of `node:fs`",
        ),
    ];
    HINTS.iter().find(|(sign, _)| message.contains(sign)).map(|(_, hint)| *hint)
}

fn report(info: &PluginInfo, tools: &[Arc<ToolDefinition>], size: usize, warnings: &[String]) -> serde_json::Value {
    let mut report = described(info, tools);
    report["bytes"] = json!(size);
    report["warnings"] = json!(warnings);
    report
}

/// Everything about a loaded plugin, its grants included.
fn details(info: &PluginInfo, tools: &[Arc<ToolDefinition>]) -> serde_json::Value {
    let mut details = described(info, tools);
    let capabilities = info
        .capabilities
        .iter()
        .map(|capability| json!({ "name": capability.name, "asks": capability.asks, "granted": capability.granted }));
    details["capabilities"] = capabilities.collect();
    let hooks = info.hooks.iter().map(|hook| json!({ "point": hook.point.name(), "not_called": hook.not_called }));
    details["hooks"] = hooks.collect();
    details["source"] = json!(info.source);
    details["origin"] = match &info.component_source {
        PluginSource::BuiltIn { .. } => json!("built-in"),
        PluginSource::File { origin, .. } => json!(origin.describe_origin()),
    };
    details["left_out"] = json!(info.left_out);
    details["held_back"] = json!(info.held_back);
    details["problem"] = json!(info.problem);
    details["grant_command"] = json!(grant_command(info));
    details
}

/// Describes a component, independent of its grants.
fn described(info: &PluginInfo, tools: &[Arc<ToolDefinition>]) -> serde_json::Value {
    let own = tools.iter().filter(|tool| info.tools.contains(&tool.name));
    let tools: Vec<_> = own
        .map(|tool| {
            let declared = info.offered.tools.get(&tool.name).copied().unwrap_or_default().effect_names();
            json!({
                "name": tool.name,
                "description": tool.description,
                "input_schema": tool.input_schema,
                "declares": declared,
                "may": tool.authority.effect_names(),
            })
        })
        .collect();
    json!({
        "name": info.name,
        "version": info.version,
        "description": info.description,
        "digest": info.digest,
        "asks": info.offered.asks.spell_asks(),
        "imports": info.imports,
        "tools": tools,
        "commands": info.commands,
        "skipped": info.skipped,
        "lifetime": info.lifetime,
    })
}

/// Describes problems of a component that loads all the same.
async fn warnings(inspection: &Inspection, info: &PluginInfo, tools: &[Arc<ToolDefinition>]) -> Result<Vec<String>> {
    let asks = &inspection.manifest.capabilities;
    let mut warnings = Vec::new();
    for unknown in &inspection.manifest.unknown {
        warnings.push(format!("asks for `{unknown}`, which this version of pinion does not know: ignored"));
    }
    if inspection.is_for_later_host() {
        warnings.push(format!(
            "made for version {} of the plugin API, and this pinion speaks {API_VERSION}: it loads, because it needs nothing newer",
            inspection.manifest.api
        ));
    }
    if inspection.exports.has_hooks() && !asks.hooks {
        let hint = "add `hooks = true` to `asks` in pinion-plugin.toml or `export!`, or pack it with --ask hooks";
        warnings.push(format!("exports hooks without asking for `hooks`: they are never called: {hint}"));
    }
    if asks.hooks && !inspection.exports.has_hooks() {
        let hint =
            "export them in wit/world.wit, such as `export pinion:plugin/before-tool-call@0.1.0;`, or in `export!`";
        warnings.push(format!("asks for `hooks` without exporting any: none is called: {hint}"));
    }
    if inspection.exports.session_events && inspection.manifest.lifetime != Lifetime::Session {
        let hint = "set `lifetime = \"session\"` in pinion-plugin.toml or `export!`";
        warnings.push(format!("exports `session-events` without the lifetime `session`: it is never called: {hint}"));
    }
    if inspection.imports.iter().any(|import| import.starts_with("wasi:http/outgoing-handler"))
        && !asks.covers_import("http")
    {
        warnings.push("imports `wasi:http` without asking for `http`: every request is denied".to_owned());
    }
    if inspection.imports.iter().any(|import| import.starts_with("wasi:keyvalue/")) && !asks.covers_import("storage") {
        warnings.push("imports `wasi:keyvalue` without asking for `storage`: every call is denied".to_owned());
    }
    let has_questions = inspection.our_imports().any(|import| import == "questions");
    for import in inspection.our_imports() {
        // `questions` brings the types of `model` along.
        let is_types = import == "model" && has_questions;
        if !asks.covers_import(import) && !is_types {
            warnings.push(format!("imports `{import}` without asking for it: every call is denied"));
        }
    }
    let alone = ["invoke", "agents"].into_iter().filter(|_| inspection.manifest.lifetime == Lifetime::Session);
    for import in
        alone.filter(|import| inspection.our_imports().any(|own| own == *import) && asks.covers_import(import))
    {
        let hint = "set `lifetime = \"reused\"` in pinion-plugin.toml or `export!`";
        warnings.push(format!("imports `{import}`, which plugins of lifetime `session` cannot use: {hint}"));
    }
    warnings.extend(info.remarks.iter().cloned());
    for tool in tools {
        // Arguments that do not match are fine here; an invalid schema is not.
        if let Err(problem) = Schemas::default().check(tool, &json!({})).await
            && problem.contains("schema is broken")
        {
            return Err(Failure::failed(format!("tool `{}`: {problem}", tool.name)));
        }
        if tool.description.trim().is_empty() {
            warnings.push(format!("tool `{}` has no description for the model", tool.name));
        }
        let declared = info.offered.tools.get(&tool.name).copied().unwrap_or_default();
        let uses_files = [(declared.reads, "reads"), (declared.writes, "writes")];
        if let Some((_, effect)) = uses_files.iter().rev().find(|(is_declared, _)| *is_declared)
            && !asks.spell_asks().iter().any(|word| word.starts_with("files"))
        {
            let hint = "it will see none: pack it with --ask files=read or files=write";
            warnings
                .push(format!("tool `{}` declares `{effect}`, but the plugin asks for no files: {hint}", tool.name));
        }
    }
    Ok(warnings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_errors_of_known_toolchains_have_a_remedy() {
        let message = "component imports instance `jco:node/fs@0.1.0`, but a matching implementation was not found";
        assert!(link_hint(message).is_some_and(|hint| hint.contains("workspace")));
        assert!(link_hint("`task.cancel` requires the component model async feature").is_some());
        assert_eq!(link_hint("no tools"), None);
    }
}
