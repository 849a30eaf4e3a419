//! An agent that works on a directory:
//! `cargo run --release -p pinion-examples --bin coding-assistant [-- --model PROVIDER/MODEL --directory DIR "TASK"]`.
//!
//! Its tools are the built-in plugins, sandboxed components: `fs` is granted only the directory, `shell` may run
//! programs. Reads need no approval; writes and programs do. Without a directory it fixes a small project in a scratch
//! directory, and without a model a script replaces it.

use clap::Parser;
use pinion_agent::approval::{Approval, ApprovalMode, DenyAll};
use pinion_agent::{Agent, Context, LoopConfig};
use pinion_examples::{AskUser, ModelArgs, PLUGINS, Result, describe, exit, lines, load_tools, print, run_shown};
use pinion_plugin_runtime::{FileAccess, Grants, ProcessGrant};
use pinion_providers::ScriptedReply;
use serde_json::json;
use std::collections::BTreeMap;
use std::fs;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

const SYSTEM: &str = "You are a coding assistant. Look before you change, make the smallest change that does it, and \
                      check your work.";
const TASK: &str = "`check.sh` fails. Find out why, fix it, and check that it passes.";
const GREET: &str = "#!/bin/sh\n# greet.sh NAME: says hello\necho \"Hello, $1\"\n";
const CHECK: &str = "#!/bin/sh\ngot=$(sh ./greet.sh world)\n[ \"$got\" = 'Hello, world!' ] && echo \"ok: $got\" && exit\n\
                     echo \"FAILED: $got\"\nexit 1\n";

/// Run an agent on a directory
#[derive(Parser)]
struct Args {
    #[command(flatten)]
    model: ModelArgs,
    /// Directory to work on [default: a small project in a scratch directory]
    #[arg(long, value_name = "DIR", requires_all = ["model", "task"])]
    directory: Option<PathBuf>,
    /// Directory of the built-in plugins
    #[arg(long, value_name = "DIR", default_value = PLUGINS)]
    plugins: PathBuf,
    /// Allow all calls without asking
    #[arg(long)]
    yes: bool,
    /// Task for the agent
    #[arg(requires = "directory")]
    task: Option<String>,
}

#[tokio::main]
async fn main() -> ExitCode {
    exit(assist(Args::parse()).await)
}

async fn assist(args: Args) -> Result<()> {
    let scratch = tempfile::tempdir()?;
    let directory = match &args.directory {
        Some(directory) => directory.canonicalize()?,
        None => project_in(scratch.path())?,
    };
    let task = args.task.as_deref().unwrap_or(TASK);
    let model = args.model.or_script(script())?;
    let tools = load_tools(&args.plugins, &directory, grants(&directory, scratch.path())).await?;
    let mut config = LoopConfig::new(model.provider, model.model, tools);
    config.ports.approval = approval(args.yes);
    let agent = Agent::new(config, Context::new(SYSTEM, "assistant"));
    print(&format!("{}\n{task}\n\n", directory.display()))?;
    let outcome = run_shown(&agent, task).await?;
    if args.directory.is_none() {
        print(&format!("\n`greet.sh` is now:\n{}", fs::read_to_string(directory.join("greet.sh"))?))?;
    }
    match describe(&outcome.end) {
        None => Ok(()),
        Some(why) => Err(why.into()),
    }
}

/// Returns the approval mode: ask before calls that change or run something, unless `yes`.
fn approval(yes: bool) -> Approval {
    let reason = "no user can be asked here; pass `--yes` to allow it".to_owned();
    match (yes, std::io::stdin().is_terminal()) {
        (true, _) => Approval::new(ApprovalMode::All, Arc::new(DenyAll { reason })),
        (false, true) => Approval::new(ApprovalMode::Smart, Arc::new(AskUser::new(lines()))),
        (false, false) => Approval::new(ApprovalMode::Smart, Arc::new(DenyAll { reason })),
    }
}

/// Returns the plugins' complete grants.
fn grants(directory: &Path, scratch: &Path) -> [(&'static str, Grants); 2] {
    let variable = |name: &str| Some((name.to_owned(), std::env::var(name).ok()?));
    let environment = ["PATH", "HOME", "LANG", "TMPDIR"].into_iter().filter_map(variable).collect();
    let process = ProcessGrant { environment, spill_directory: scratch.join("output") };
    [
        ("fs", Grants { files: BTreeMap::from([(directory.to_owned(), FileAccess::Write)]), ..Grants::default() }),
        ("shell", Grants { process: Some(process), ..Grants::default() }),
    ]
}

/// Creates a project with a bug.
fn project_in(scratch: &Path) -> Result<PathBuf> {
    let directory = scratch.canonicalize()?.join("project");
    fs::create_dir(&directory)?;
    fs::write(directory.join("greet.sh"), GREET)?;
    fs::write(directory.join("check.sh"), CHECK)?;
    Ok(directory)
}

/// The scripted replies; the tools carry them out.
fn script() -> [ScriptedReply; 5] {
    let check = json!({ "command": "sh ./check.sh" });
    let edits = json!([{ "old_text": "Hello, $1", "new_text": "Hello, $1!" }]);
    [
        ScriptedReply::text("I read the program, and run its check.").and_call("read", json!({ "path": "greet.sh" })),
        ScriptedReply::call("bash", check.clone()),
        ScriptedReply::text("The exclamation mark is missing.")
            .and_call("edit", json!({ "path": "greet.sh", "edits": edits })),
        ScriptedReply::call("bash", check),
        ScriptedReply::text("That was the script: it read, ran, edited, and ran again, as far as you let it."),
    ]
}
