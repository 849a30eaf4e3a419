//! An agent that works on a folder:
//! `cargo run --release -p pinion-examples --bin coding-assistant [-- --model PROVIDER/MODEL --folder DIR "TASK"]`.
//!
//! Its tools are the built-in plugins, components in a sandbox: `fs` gets the folder and nothing else, `shell` may run
//! programs. It may read as it likes; before it writes or runs something, you are asked. Without a folder it mends a
//! little project in a scratch folder, and without a model a script does.

use clap::Parser;
use pinion_agent::{Agent, Approval, ApprovalMode, Context, DenyAll, LoopConfig};
use pinion_examples::{AskUser, ModelArgs, PLUGINS, Result, describe, exit, lines, load_tools, print, run_shown};
use pinion_plugin_runtime::{Access, Grants, ProcessGrant};
use pinion_providers::Reply;
use serde_json::json;
use std::collections::BTreeMap;
use std::fs;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

const SYSTEM: &str = "You are a coding assistant. Look before you change, make the smallest change that does it, and \
                      check your work.";
const TASK: &str = "`check.sh` fails. Find out why, mend it, and see that it passes.";
const GREET: &str = "#!/bin/sh\n# greet.sh NAME: says hello\necho \"Hello, $1\"\n";
const CHECK: &str = "#!/bin/sh\ngot=$(sh ./greet.sh world)\n[ \"$got\" = 'Hello, world!' ] && echo \"ok: $got\" && exit\n\
                     echo \"FAILED: $got\"\nexit 1\n";

/// An agent that works on a folder.
#[derive(Parser)]
struct Args {
    #[command(flatten)]
    model: ModelArgs,
    /// The folder to work on; a little project in a scratch folder when there is none
    #[arg(long, value_name = "DIR", requires_all = ["model", "task"])]
    folder: Option<PathBuf>,
    /// The folder with the built-in plugins
    #[arg(long, value_name = "DIR", default_value = PLUGINS)]
    plugins: PathBuf,
    /// Ask nothing: all calls may run
    #[arg(long)]
    yes: bool,
    /// What is to be done in the folder
    #[arg(requires = "folder")]
    task: Option<String>,
}

#[tokio::main]
async fn main() -> ExitCode {
    exit(assist(Args::parse()).await)
}

async fn assist(args: Args) -> Result<()> {
    let scratch = tempfile::tempdir()?;
    let folder = match &args.folder {
        Some(folder) => folder.canonicalize()?,
        None => project_in(scratch.path())?,
    };
    let task = args.task.as_deref().unwrap_or(TASK);
    let model = args.model.or_script(script())?;
    let tools = load_tools(&args.plugins, &folder, grants(&folder, scratch.path())).await?;
    let mut config = LoopConfig::new(model.provider, model.model, tools);
    config.ports.approval = approval(args.yes);
    let agent = Agent::new(config, Context::new(SYSTEM, "assistant"));
    print(&format!("{}\n{task}\n\n", folder.display()))?;
    let outcome = run_shown(&agent, task).await?;
    if args.folder.is_none() {
        print(&format!("\n`greet.sh` is now:\n{}", fs::read_to_string(folder.join("greet.sh"))?))?;
    }
    match describe(&outcome.end) {
        None => Ok(()),
        Some(why) => Err(why.into()),
    }
}

/// Which calls the user is asked about: those that can change or run something.
fn approval(yes: bool) -> Approval {
    let reason = "nobody can be asked here; `--yes` would let it run".to_owned();
    match (yes, std::io::stdin().is_terminal()) {
        (true, _) => Approval::new(ApprovalMode::All, Arc::new(DenyAll { reason })),
        (false, true) => Approval::new(ApprovalMode::Smart, Arc::new(AskUser::new(lines()))),
        (false, false) => Approval::new(ApprovalMode::Smart, Arc::new(DenyAll { reason })),
    }
}

/// What the plugins may do: nothing that does not stand here.
fn grants(folder: &Path, scratch: &Path) -> [(&'static str, Grants); 2] {
    let variable = |name: &str| Some((name.to_owned(), std::env::var(name).ok()?));
    let environment = ["PATH", "HOME", "LANG", "TMPDIR"].into_iter().filter_map(variable).collect();
    let process = ProcessGrant { environment, spill_folder: scratch.join("output") };
    [
        ("fs", Grants { files: BTreeMap::from([(folder.to_owned(), Access::Write)]), ..Grants::default() }),
        ("shell", Grants { process: Some(process), ..Grants::default() }),
    ]
}

/// A project with something to mend.
fn project_in(scratch: &Path) -> Result<PathBuf> {
    let folder = scratch.canonicalize()?.join("project");
    fs::create_dir(&folder)?;
    fs::write(folder.join("greet.sh"), GREET)?;
    fs::write(folder.join("check.sh"), CHECK)?;
    Ok(folder)
}

/// What the model says when there is none. The tools do what it says.
fn script() -> [Reply; 5] {
    let check = json!({ "command": "sh ./check.sh" });
    let edits = json!([{ "old_text": "Hello, $1", "new_text": "Hello, $1!" }]);
    [
        Reply::text("I read the program, and run its check.").and_call("read", json!({ "path": "greet.sh" })),
        Reply::call("bash", check.clone()),
        Reply::text("The exclamation mark is missing.").and_call("edit", json!({ "path": "greet.sh", "edits": edits })),
        Reply::call("bash", check),
        Reply::text("That was the script: it read, ran, edited, and ran again, as far as you let it."),
    ]
}
