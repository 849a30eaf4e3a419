//! `pinion doctor`: checks what pinion needs.

use crate::args::RunArgs;
use crate::base::Base;
use crate::failure::{Failure, Result, chain};
use crate::invocation::Invocation;
use crate::output::bytes;
use crate::output::terminal::Style;
use crate::output::{Text, print, text};
use crate::plugins::sources::Purpose;
use clap::Args;
use pinion_plugin_runtime::Origin;
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
        examine(&invocation.base()?).await
    }
}

async fn examine(base: &Base) -> Result<()> {
    let mut findings = vec![
        Finding::Good(format!("pinion {} in `{}`", env!("CARGO_PKG_VERSION"), base.workspace.display())),
        config(base),
        directory("data", &base.paths.data),
        directory("cache", &base.paths.cache),
        cache(base),
    ];
    findings.extend(cache_key(base));
    findings.extend(keys(base).await);
    findings.push(model(base).await);
    findings.extend(plugins(base).await);
    findings.extend([program("git", "the model uses it with `bash`"), toolchain()]);
    findings.extend(base.project_notices().into_iter().map(Finding::Missing));
    let style = Style::of_stdout();
    let mut lines = Text::default();
    findings.iter().for_each(|finding| lines.line(line(finding, style)));
    print(&lines)?;
    match findings.iter().filter(|finding| matches!(finding, Finding::Broken(_))).count() {
        0 => Ok(()),
        n => Err(Failure::failed(format!("{n} checks failed"))),
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

/// Reports the config file. It was read before this command began.
fn config(base: &Base) -> Finding {
    let file = base.paths.config_file();
    match file.exists() {
        true => Finding::Good(format!("config `{}`", file.display())),
        false => Finding::Missing(format!("no config `{}`, using the defaults", file.display())),
    }
}

fn directory(what: &str, path: &Path) -> Finding {
    let probe = path.join(format!(".probe-{}", std::process::id()));
    let written = crate::files::private::create_directory(path).and_then(|()| std::fs::write(&probe, "x"));
    // A leftover probe does no harm.
    let _ = std::fs::remove_file(&probe);
    match written {
        Ok(()) => Finding::Good(format!("{what} `{}`", path.display())),
        Err(error) => Finding::Broken(format!("{what} `{}` is not writable: {error}", path.display())),
    }
}

fn cache(base: &Base) -> Finding {
    // Compiled code has no extension, unlike what is beside it.
    let entries = std::fs::read_dir(base.paths.components()).into_iter().flatten().flatten();
    let entries = entries.filter(|entry| entry.path().extension().is_none());
    let sizes: Vec<u64> = entries.filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.len()).collect();
    Finding::Good(format!("compiled components: {}, {}", sizes.len(), bytes(sizes.iter().sum())))
}

/// Reports damage of the secret that seals compiled code. Loading plugins repairs it.
fn cache_key(base: &Base) -> Option<Finding> {
    let file = base.paths.cache_key_file();
    let damage = crate::files::private::damage::<32>(&file)?;
    Some(Finding::Missing(format!("cache key `{}` was replaced, so plugins compile again: {damage}", file.display())))
}

/// Reports the origin of each key, never the key itself.
async fn keys(base: &Base) -> Vec<Finding> {
    let found = base.key_origins().await.into_iter().filter_map(|(info, origin)| match origin {
        Ok(origin) => Some(Finding::Good(format!("key for {}: {}", info.name, origin?))),
        Err(error) => Some(Finding::Broken(format!("key for {}: {}", info.name, chain(&error)))),
    });
    let found: Vec<Finding> = found.collect();
    match found.is_empty() {
        true => vec![Finding::Missing("no key (set one such as ANTHROPIC_API_KEY)".to_owned())],
        false => found,
    }
}

async fn model(base: &Base) -> Finding {
    match base.chosen(&RunArgs::default()).await {
        Ok(chosen) => Finding::Good(format!("model {}", chosen.label)),
        Err(failure) => Finding::Missing(failure.to_string()),
    }
}

async fn plugins(base: &Base) -> Vec<Finding> {
    let runtime = match base.showing(|_| {}) {
        Ok(runtime) => runtime,
        Err(failure) => return vec![Finding::Broken(failure.to_string())],
    };
    runtime.add(base.sources(&RunArgs::default(), Purpose::Conversation)).await;
    // A description from the cache says nothing about the code.
    runtime.load_code().await;
    let loaded = runtime.plugins().into_iter().map(|plugin| {
        let origin = if plugin.origin == Origin::Cached { "from the cache" } else { "compiled now" };
        Finding::Good(format!("plugin {} {} ({}), {origin}", plugin.name, plugin.version, plugin.source))
    });
    let problems = runtime.problems();
    let broken = problems.iter().map(|(plugin, problem)| Finding::Broken(format!("plugin {plugin}: {problem}")));
    loaded.chain(broken).collect()
}

fn program(name: &str, why: &str) -> Finding {
    match std::process::Command::new(name).arg("--version").output() {
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
    let installed = std::process::Command::new("rustup").args(["target", "list", "--installed"]).output();
    match installed {
        Ok(output) if String::from_utf8_lossy(&output.stdout).contains("wasm32-wasip2") => {
            Finding::Good("plugin builds: Rust target wasm32-wasip2".to_owned())
        }
        _ => Finding::Missing("plugin builds need `rustup target add wasm32-wasip2`".to_owned()),
    }
}
