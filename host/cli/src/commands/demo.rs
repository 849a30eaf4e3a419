//! `pinion demo`: a complete run with no key and no network.
//!
//! A scripted model works in a scratch directory. Everything else is real: the loop, the components, the sandbox and
//! the programs that `bash` runs. In the middle of a turn the model replaces the file of a plugin, and the new version
//! answers the next call of the same turn.

use clap::Args;
use futures_util::future::BoxFuture;
use pinion_agent::approval::{ApprovalMode, DenyAll};
use pinion_agent::channel::EventReceiver;
use pinion_agent::content::ToolCall;
use pinion_agent::hooks::Flow;
use pinion_agent::message::ToolResultMessage;
use pinion_agent::{Context as Conversation, Hooks, Message, RunEnd, Usage};
use pinion_app::config::Config;
use pinion_app::failure::{Failure, Result};
use pinion_app::files::output_directories;
use pinion_app::files::paths::Paths;
use pinion_app::files::private::open_file;
use pinion_app::model::Chosen;
use pinion_app::options::RunOptions;
use pinion_app::plugins::builtin::GREETER;
use pinion_app::plugins::sources::Purpose;
use pinion_app::prompt::context::Context;
use pinion_app::run::notices::describe;
use pinion_app::run::session::OpenSession;
use pinion_app::run::setup::AgentParts;
use pinion_app::workspace_base::Base;
use pinion_console::args::GlobalArgs;
use pinion_console::invocation::Invocation;
use pinion_console::output::TerminalScreen;
use pinion_console::output::terminal::{Style, size};
use pinion_console::output::{Stdout, indented, page, print, showing, text, written};
use pinion_console::process::signals::interruptible;
use pinion_conversation::render::{Detail, Renderer, show};
use pinion_conversation::run_end::verdict;
use pinion_conversation::runs::Runs;
use pinion_conversation::transcript::WrittenTranscript;
use pinion_plugin_runtime::{NoInfo, Notice, NoticeEvent};
use pinion_providers::{Script, ScriptedReply};
use pinion_tui::{Input, Tone};
use serde_json::json;
use std::fs;
use std::io::{self, IsTerminal as _};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const PROMPT: &str = "The tests of this small project fail. Find the bug, fix it, and check that they pass. Then greet the \
                      world, replace the greeter plugin with the file in `new/`, and greet it again.";

const PROGRAM: &str = "\
#!/bin/sh
# total.sh FILE: the sum of the numbers in a file
total=0
while read -r number; do
  total=$((total - number))
done < \"$1\"
echo \"$total\"
";

const TEST: &str = "\
#!/bin/sh
# test.sh: checks the sum
printf '1\\n2\\n39\\n' > numbers.txt
got=$(sh ./total.sh numbers.txt)
if [ \"$got\" = 42 ]; then echo \"ok: $got\"; else echo \"FAILED: expected 42, got $got\"; exit 1; fi
";

const TITLE: &str = "pinion demo: a scripted model, real plugins, a scratch directory";

const CLOSING: &str = "\
**Fixed the bug, passed the test, and replaced a plugin in the middle of a turn.**

Next: set the key of your provider, and start in a project of yours:

```
export ANTHROPIC_API_KEY=…    # or OPENAI_API_KEY, GEMINI_API_KEY, …
cd your/project && pinion
```";

/// Pauses after a turn and after a call on a terminal: about seven seconds in all.
const TURN_AND_CALL: (Duration, Duration) = (Duration::from_millis(600), Duration::from_millis(350));

/// The arguments of `pinion demo`.
#[derive(Debug, Args)]
pub(crate) struct Demo {}

impl Demo {
    pub(crate) async fn run(self, invocation: &Invocation) -> Result<()> {
        run(&invocation.global).await
    }
}

async fn run(global: &GlobalArgs) -> Result<()> {
    let scratch = tempfile::Builder::new().prefix("pinion-demo-").tempdir().map_err(io_failure)?;
    let directory = scratch.path().canonicalize().map_err(io_failure)?;
    let workspace = directory.join("project");
    furnish(&workspace).map_err(io_failure)?;
    let base = base(&directory, workspace)?;
    let style = Style::of_stdout();
    let output = match size().is_some() && !global.quiet {
        true => DemoOutput::Transcript(Arc::new(Mutex::new(WrittenTranscript::new(&base, style)?))),
        false => DemoOutput::Lines(style),
    };
    output.page(&format!("**{TITLE}**"))?;
    if let DemoOutput::Lines(style) = output {
        print(&text!("{}\n\n", style.dim(indented(PROMPT))))?;
    }
    let end = work(&base, &output, global).await?;
    verdict(end, true)?;
    check(&base.workspace)?;
    output.page(CLOSING)
}

/// The way the run is shown.
#[derive(Clone)]
enum DemoOutput {
    /// Lines, for a pipe.
    Lines(Style),
    /// The transcript of the UI, for a terminal.
    Transcript(Arc<Mutex<WrittenTranscript>>),
}

impl DemoOutput {
    fn page(&self, markdown: &str) -> Result<()> {
        match self {
            Self::Lines(style) => print(&text!("{}\n", page(markdown, *style))),
            Self::Transcript(_) => written(self.input(Input::Page(markdown.to_owned()))),
        }
    }

    fn notice(&self, notice: &Notice) {
        // The next write reports a closed stdout.
        let _ = match self {
            Self::Lines(style) => print(&text!("  {}\n", style.yellow(describe(notice)))),
            Self::Transcript(_) => {
                written(self.input(Input::Note(Tone::Warning, describe(notice).as_str().to_owned())))
            }
        };
    }

    /// Applies an input of the UI.
    fn input(&self, input: Input) -> io::Result<()> {
        match self {
            Self::Lines(_) => Ok(()),
            Self::Transcript(transcript) => transcript.lock().unwrap_or_else(PoisonError::into_inner).input(input),
        }
    }

    /// Shows the events of the run until it ends.
    async fn show(self, mut events: EventReceiver, detail: Detail) -> io::Result<()> {
        if let Self::Lines(style) = self {
            return show(events, Renderer::new(Stdout, style, detail).with_turn_headings()).await;
        }
        let mut runs = Runs::default();
        while let Some(event) = events.recv().await {
            let is_end = runs.is_end(&event);
            self.input(Input::Event(event))?;
            if is_end {
                break;
            }
        }
        Ok(())
    }
}

fn io_failure(error: io::Error) -> Failure {
    Failure::failed("could not set up the scratch directory").because(error)
}

/// Creates the project that the model works on.
fn furnish(workspace: &Path) -> io::Result<()> {
    fs::create_dir_all(workspace.join("plugins"))?;
    fs::create_dir_all(workspace.join("new"))?;
    fs::write(workspace.join("total.sh"), PROGRAM)?;
    fs::write(workspace.join("test.sh"), TEST)?;
    fs::write(workspace.join("README.md"), "# total\n\nAdds up the numbers in a file.\n")?;
    fs::write(workspace.join("plugins/greeter.wasm"), GREETER[0])?;
    fs::write(workspace.join("new/greeter.wasm"), GREETER[1])
}

/// Ignores the user's config and sessions, but shares the cache of compiled code.
fn base(directory: &Path, workspace: std::path::PathBuf) -> Result<Base> {
    let cache = Paths::from_environment().ok();
    let mut paths =
        Paths { config: directory.join("config"), data: directory.join("data"), cache: directory.join("cache") };
    if let Some(own) = cache {
        paths.cache = own.cache;
        paths.data = own.data;
    }
    let mut config = Config::load(&paths, &workspace, &RunOptions::default())?;
    config.approve = ApprovalMode::All;
    let output = Arc::new(output_directories::SpillDirectory::new(directory.join("output")));
    let secrets = pinion_app::config::secrets::of_environment();
    Ok(Base::new(paths, workspace, config, secrets, output, Arc::new(TerminalScreen)))
}

async fn work(base: &Base, output: &DemoOutput, global: &GlobalArgs) -> Result<RunEnd> {
    let greeter = base.workspace.join("plugins/greeter.wasm");
    let args = RunOptions { no_plugins: true, plugins: vec![greeter], ..RunOptions::default() };
    let runtime = Arc::new(base.runtime(base.begin_engine(), Arc::new(NoInfo), report(output.clone()))?);
    runtime.add(base.sources(&args, Purpose::Run)).await;
    if let Some((plugin, problem)) = runtime.problems().first() {
        return Err(Failure::failed(format!("plugin `{plugin}` was not loaded: {problem}")));
    }
    let session = OpenSession::unkept(base);
    let approver = Arc::new(DenyAll { reason: "the demo asks no one".to_owned() });
    let chosen = Chosen::scripted(script(), "demo");
    let parts = AgentParts {
        chosen,
        tools: runtime,
        approver,
        session: &session,
        context: &Context::default(),
        summarizer: None,
    };
    let agent = Arc::new(base.agent(&args, parts));
    agent.configure(|config| config.ports.hooks.push(Arc::new(Pace::of_stdout())));
    let detail = if global.quiet { Detail::Notices } else { Detail::Ledgers };
    let showing = showing(output.clone().show(agent.subscribe(256), detail));
    let (outcome, _) = interruptible(&agent, agent.run(vec![Message::user(PROMPT)])).await;
    let shown = showing.await.map_err(|error| Failure::failed("the display failed").because(error))?;
    written(shown)?;
    outcome.map(|outcome| outcome.end).map_err(Failure::from)
}

/// Slows the run down for a person, who wants to follow it. Programs get it at once.
struct Pace {
    turn: Duration,
    call: Duration,
}

impl Pace {
    fn of_stdout() -> Self {
        let (turn, call) = if io::stdout().is_terminal() { TURN_AND_CALL } else { (Duration::ZERO, Duration::ZERO) };
        Self { turn, call }
    }
}

impl Hooks for Pace {
    fn after_turn<'a>(&'a self, _: &'a Conversation, _: &'a Usage, _: &'a CancellationToken) -> BoxFuture<'a, Flow> {
        Box::pin(async {
            tokio::time::sleep(self.turn).await;
            Flow::Continue
        })
    }

    fn after_tool<'a>(
        &'a self,
        _: &'a ToolCall,
        _: &'a ToolResultMessage,
        _: &'a CancellationToken,
    ) -> BoxFuture<'a, ()> {
        Box::pin(tokio::time::sleep(self.call))
    }
}

fn report(output: DemoOutput) -> impl Fn(Notice) + Send + Sync {
    move |notice| {
        let is_expected = matches!(notice.event, NoticeEvent::Loaded { generation: 1, .. });
        if !is_expected {
            output.notice(&notice);
        }
    }
}

/// The script of the model, which knows the results of the tools in advance.
fn script() -> Script {
    let say = |text: &str| ScriptedReply { chunk: 12, ..ScriptedReply::text(text) };
    Script::new([
        say("I'll start by looking around.")
            .and_call("list", json!({ "path": "." }))
            .and_call("search", json!({ "pattern": "total" }))
            .and_call("bash", json!({ "command": "sh ./test.sh" })),
        say("The sum is negative, so something subtracts. I'll read the program.")
            .and_call("read", json!({ "path": "total.sh" })),
        say("It subtracts where it should add.").and_call(
            "edit",
            json!({ "path": "total.sh", "edits": [{ "old_text": "total - number", "new_text": "total + number" }] }),
        ),
        say("I'll run the test again, and see what the sandbox makes of a file outside of the project.")
            .and_call("bash", json!({ "command": "sh ./test.sh" }))
            .and_call("read", json!({ "path": "/etc/passwd" })),
        say("The test passes. Now the greeter: three calls in one turn, and the second replaces its file.")
            .and_call("greet", json!({ "name": "world" }))
            .and_call("bash", json!({ "command": "cp new/greeter.wasm plugins/greeter.wasm" }))
            .and_call("greet", json!({ "name": "world" })),
        say("Done. `total.sh` subtracted the numbers instead of adding them. It adds them now, and the test passes. \
             The greeter was replaced in the middle of this turn, and its new version gave the second greeting.\n"),
    ])
}

/// Verifies that the run fixed the bug, as the demo claims.
fn check(workspace: &Path) -> Result<()> {
    let program = open_file(&workspace.join("total.sh")).and_then(io::read_to_string).map_err(io_failure)?;
    match program.contains("total + number") {
        true => Ok(()),
        false => Err(Failure::failed("the bug was not fixed")),
    }
}
