//! `pinion doctor`: checks everything that pinion needs.

use crate::commands::plugin::show::silent_hooks;
use clap::Args;
use futures_util::future::join_all;
use pinion_app::config::Config;
use pinion_app::failure::{Failure, Result, with_causes};
use pinion_app::files::paths::Paths;
use pinion_app::files::private::{read_or_create, read_settings};
use pinion_app::model::Chosen;
use pinion_app::names::nearest;
use pinion_app::options::RunOptions;
use pinion_app::plugins::builtin::BUILT_IN;
use pinion_app::plugins::sources::Purpose;
use pinion_app::workspace_base::Base;
use pinion_console::invocation::Invocation;
use pinion_console::output::terminal::Style;
use pinion_console::output::{Text, bytes, count, print, text};
use pinion_plugin_runtime::CodeOrigin;
use std::collections::BTreeMap;
use std::path::Path;

/// The result of one check.
enum Finding {
    Good(String),
    /// Optional and absent.
    Missing(String),
    /// Required and not working.
    Broken(String),
}

/// The arguments of `pinion doctor`.
#[derive(Debug, Args)]
pub(crate) struct Doctor {}

impl Doctor {
    pub(crate) async fn run(self, invocation: &Invocation) -> Result<()> {
        let (paths, workspace) = (Paths::from_environment()?, invocation.workspace()?);
        let (config, problem) = match invocation.config(&paths, &workspace) {
            Ok(config) => (config, None),
            Err(failure) => (
                Config::without_users_file(&paths, &workspace, &invocation.run.options())?,
                Some(Finding::from_failure(&failure)),
            ),
        };
        examine(&invocation.base_with(paths, workspace, config)?, problem).await
    }
}

/// Examines everything. `config_problem` is the reason that the user's config is not in effect.
async fn examine(base: &Base, config_problem: Option<Finding>) -> Result<()> {
    let mut findings = vec![
        Finding::Good(format!("pinion {} in `{}`", env!("CARGO_PKG_VERSION"), base.workspace.display())),
        config_problem.unwrap_or_else(|| config(base)),
        directory("data", &base.paths.data),
        directory("cache", &base.paths.cache),
        cache(base),
    ];
    findings.extend(cache_key(base));
    findings.extend(keys(base).await);
    findings.extend(unknown_providers(base));
    let chosen = base.chosen(&RunOptions::default()).await;
    findings.push(model(&chosen));
    findings.extend(unknown_fallbacks(base).await);
    findings.extend(plugins(base).await);
    findings.push(sandbox(base));
    findings.push(exclusions(base));
    findings.extend([program("git", "the model uses it with `bash`"), toolchain()]);
    findings.extend(base.project_notices().into_iter().map(Finding::Missing));
    let style = Style::of_stdout();
    let mut lines = Text::default();
    findings.iter().for_each(|finding| lines.line(line(finding, style)));
    let broken = findings.iter().filter(|finding| matches!(finding, Finding::Broken(_))).count();
    lines.push(text!("\n{}", verdict(&chosen, broken, style)));
    print(&lines)?;
    match broken {
        0 => Ok(()),
        n => Err(Failure::failed(format!("{} failed", count(n as u64, "check")))),
    }
}

/// Reports the files that are kept from plugins and programs.
fn exclusions(base: &Base) -> Finding {
    let patterns = base.config.exclusions.exclusions().patterns().count() as u64;
    match base.config.exclusions.find_excluded() {
        Err(error) => Finding::Broken(error.to_string()),
        Ok(_) if patterns == 0 => Finding::Missing("no excluded files: the config turns them off".to_owned()),
        Ok(found) => {
            let files = count(found.places.len() as u64, "path");
            let gap = match base.sandbox() {
                None => Some("programs can use them, because they run without a sandbox".to_owned()),
                Some(programs) => {
                    let planned = programs.policy(base.output.directory()).ok();
                    planned.and_then(|planned| programs.gap(&planned.policy))
                }
            };
            let text = format!("excluded files: {files} by {}", count(patterns, "pattern"));
            match gap {
                None => Finding::Good(format!("{text} (`pinion sandbox --status` lists them)")),
                Some(gap) => Finding::Missing(format!("{text}; {gap}")),
            }
        }
    }
}

/// Checks the sandbox of programs.
fn sandbox(base: &Base) -> Finding {
    let Some(programs) = base.sandbox() else {
        return Finding::Missing("no sandbox: the config turns it off, and programs run unprotected".to_owned());
    };
    let policy = match programs.policy(base.output.directory()) {
        Ok(planned) => planned.policy,
        Err(error) => return Finding::Broken(error),
    };
    match programs.support(&policy) {
        Err(error) => Finding::Broken(error),
        Ok(support) => match (&support.namespaces, support.landlock) {
            (Ok(()), Some(version)) => {
                Finding::Good(format!("sandbox of programs: namespaces, Landlock {version}, seccomp"))
            }
            (Err(reason), _) => Finding::Missing(format!("sandbox of programs without namespaces: {reason}")),
            (Ok(()), None) => Finding::Missing("sandbox of programs without Landlock".to_owned()),
        },
    }
}

/// Sums up whether pinion can be used, and names the next command.
fn verdict(chosen: &Result<Chosen>, broken: usize, style: Style) -> Text {
    match chosen {
        _ if broken > 0 => text!(
            "{}: fix what is marked ✗ above, then run `pinion doctor` again\n",
            style.red(text!("not ready, {}", count(broken as u64, "problem")))
        ),
        Ok(chosen) => text!("{}: start with `pinion` (model {})\n", style.green("ready"), chosen.label),
        Err(failure) => {
            let message = failure.message();
            text!("{}: {}\n", style.yellow("not ready"), Text::block(failure.remedy().unwrap_or(&message)))
        }
    }
}

impl Finding {
    fn from_failure(failure: &Failure) -> Self {
        Self::Broken(failure.to_string())
    }
}

fn line(finding: &Finding, style: Style) -> Text {
    let (mark, text) = match finding {
        Finding::Good(text) => (style.green("✓"), text),
        Finding::Missing(text) => (style.yellow("–"), text),
        Finding::Broken(text) => (style.red("✗"), text),
    };
    text!("{} {}", mark, Text::block(text))
}

/// Reports a config file without problems.
fn config(base: &Base) -> Finding {
    let file = base.paths.config_file();
    match file.exists() {
        true => Finding::Good(format!("config `{}`", file.display())),
        false => Finding::Missing(format!("no config `{}`, using the defaults", file.display())),
    }
}

fn directory(what: &str, path: &Path) -> Finding {
    let probe = path.join(format!(".probe-{}", std::process::id()));
    let written = pinion_app::files::private::create_directory(path).and_then(|()| std::fs::write(&probe, "x"));
    // A leftover probe does no harm.
    let _ = std::fs::remove_file(&probe);
    match written {
        Ok(()) => Finding::Good(format!("{what} `{}`", path.display())),
        Err(error) => Finding::Broken(format!("{what} `{}` is not writable: {error}", path.display())),
    }
}

fn cache(base: &Base) -> Finding {
    // Compiled code has no extension, unlike the other files in the directory.
    let entries = std::fs::read_dir(base.paths.components()).into_iter().flatten().flatten();
    let entries = entries.filter(|entry| entry.path().extension().is_none());
    let sizes: Vec<u64> = entries.filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.len()).collect();
    Finding::Good(format!("compiled components: {}, {}", sizes.len(), bytes(sizes.iter().sum())))
}

/// Reports damage of the secret that seals compiled code, which is repaired.
fn cache_key(base: &Base) -> Option<Finding> {
    let file = base.paths.cache_key_file();
    match read_or_create::<32>(&file) {
        Ok(secret) => secret.repaired.map(|damage| {
            let text = format!("cache key `{}` was replaced, so plugins compile again: {damage}", file.display());
            Finding::Missing(text)
        }),
        Err(error) => {
            let text =
                format!("cache key `{}` cannot be used, so plugins compile at every start: {error}", file.display());
            Some(Finding::Missing(text))
        }
    }
}

/// Reports the origin of each key, never the key itself. A problem of several providers, such as a broken file, is
/// reported once.
async fn keys(base: &Base) -> Vec<Finding> {
    let (mut found, mut problems) = (Vec::new(), BTreeMap::<String, Vec<&str>>::new());
    for (info, origin) in base.key_origins().await {
        match origin {
            Ok(Some(origin)) => found.push(Finding::Good(format!("key for {}: {origin}", info.name))),
            Ok(None) => {}
            Err(error) => problems.entry(with_causes(&error)).or_default().push(info.name),
        }
    }
    found.extend(problems.into_iter().map(|(problem, providers)| match providers[..] {
        [provider] => Finding::Broken(format!("key for {provider}: {problem}")),
        _ => Finding::Broken(format!("keys: {problem}")),
    }));
    if found.is_empty() {
        found.push(Finding::Missing("no key (set one such as ANTHROPIC_API_KEY)".to_owned()));
    }
    found
}

/// Reports tables of `auth.toml` that no provider reads. A file that cannot be read is reported with the keys.
fn unknown_providers(base: &Base) -> Vec<Finding> {
    let text = read_settings(&base.paths.auth_file()).ok().flatten().unwrap_or_default();
    let table: toml::Table = toml::from_str(&text).unwrap_or_default();
    let names: Vec<&str> = base.config.registry.iter().map(|info| info.name).collect();
    let unknown = table.keys().filter(|name| !names.contains(&name.as_str()));
    unknown.map(|name| unused(&format!("`[{name}]` in auth.toml"), "provider", name, names.iter().copied())).collect()
}

/// Describes a setting for something that does not exist, with the name that was probably meant.
fn unused<'a>(setting: &str, thing: &str, name: &str, names: impl IntoIterator<Item = &'a str>) -> Finding {
    let meant = nearest(name, names).map(|name| format!(" (did you mean `{name}`?)")).unwrap_or_default();
    Finding::Missing(format!("{setting} has no effect: no {thing} has this name{meant}"))
}

fn model(chosen: &Result<Chosen>) -> Finding {
    match chosen {
        Ok(chosen) => Finding::Good(format!("model {}", chosen.label)),
        // A file with a mistake, for example.
        Err(failure) if failure.has_cause() => Finding::from_failure(failure),
        Err(failure) => Finding::Missing(failure.message()),
    }
}

/// Reports fallbacks that no provider or no list of models knows.
async fn unknown_fallbacks(base: &Base) -> Vec<Finding> {
    let Ok(models) = base.models() else { return Vec::new() };
    let models = &models;
    let check = async |name: &String| match base.resolve(None, name, models).await {
        // The table lists no models of Ollama; its server said that it has this one, or the name says so.
        Ok((info, model)) if info.name != "ollama" && !models.find(info.name, &model).known => {
            Some(Finding::Missing(format!("the fallback `{name}` is not a known model (`pinion model list`)")))
        }
        Ok(_) => None,
        Err(failure) => Some(Finding::Broken(format!("the fallback `{name}`: {}", failure.message()))),
    };
    join_all(base.config.fallback.iter().map(check)).await.into_iter().flatten().collect()
}

async fn plugins(base: &Base) -> Vec<Finding> {
    let runtime = match base.showing() {
        Ok(runtime) => runtime,
        Err(failure) => return vec![Finding::Broken(failure.to_string())],
    };
    runtime.add(base.sources(&RunOptions::default(), Purpose::Conversation)).await;
    // A description from the cache says nothing about the code.
    runtime.load_code().await;
    let loaded = runtime.plugins().into_iter().map(|plugin| {
        let origin = if plugin.origin == CodeOrigin::Cached { "from the cache" } else { "compiled now" };
        Finding::Good(format!("plugin {} {} ({}), {origin}", plugin.name, plugin.version, plugin.source))
    });
    let silent = runtime.plugins().into_iter().filter_map(|plugin| {
        let silent = silent_hooks(&plugin)?;
        Some(Finding::Missing(format!("plugin {} has {silent}", plugin.name)))
    });
    let left_out = runtime.plugins().into_iter().filter(|plugin| !plugin.left_out.is_empty()).map(|plugin| {
        Finding::Missing(format!("plugin {} was loaded without the {}", plugin.name, plugin.left_out.join("; ")))
    });
    let problems = runtime.problems();
    let broken = problems.iter().map(|(plugin, problem)| Finding::Broken(format!("plugin {plugin}: {problem}")));
    let plugins = runtime.plugins();
    // A built-in plugin that has nothing to do is not loaded.
    let built_in = BUILT_IN.iter().map(|plugin| plugin.name);
    let loading = problems.iter().map(|(plugin, _)| &**plugin).chain(built_in);
    let names: Vec<&str> = plugins.iter().map(|plugin| &*plugin.name).chain(loading).collect();
    let unknown = base
        .config
        .plugins
        .iter()
        .filter(|(name, plugin)| plugin.enabled != Some(false) && !names.contains(&name.as_str()));
    let unknown = unknown
        .map(|(name, _)| unused(&format!("`[plugins.{name}]` in the config"), "plugin", name, names.iter().copied()));
    loaded.chain(silent).chain(left_out).chain(broken).chain(unknown).collect()
}

/// Returns a command that runs outside of the project, whose files, such as `rust-toolchain.toml`, select programs otherwise.
fn outside(program: &str) -> std::process::Command {
    let mut command = std::process::Command::new(program);
    command.current_dir("/");
    command
}

fn program(name: &str, why: &str) -> Finding {
    match outside(name).arg("--version").output() {
        Ok(output) if output.status.success() => {
            Finding::Good(String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or(name).to_owned())
        }
        _ => Finding::Missing(format!("no `{name}` ({why})")),
    }
}

/// Reports the Rust toolchain for plugins, which only plugin authors need.
fn toolchain() -> Finding {
    if let (Ok(cargo), Ok(target)) = (std::env::var("GUEST_CARGO"), std::env::var("GUEST_TARGET")) {
        return Finding::Good(format!("plugin builds: `{cargo}` for {target}"));
    }
    let installed = outside("rustup").args(["target", "list", "--installed"]).output();
    match installed {
        Ok(output) if String::from_utf8_lossy(&output.stdout).contains("wasm32-wasip2") => {
            Finding::Good("plugin builds: Rust target wasm32-wasip2".to_owned())
        }
        _ => Finding::Missing("plugin builds need `rustup target add wasm32-wasip2`".to_owned()),
    }
}
