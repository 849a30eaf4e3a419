//! Cooperating agents: `cargo run --release -p pinion-examples --bin pipeline [-- --model PROVIDER/MODEL]`.
//!
//! Plain code divides the work: a researcher reads a directory of notes; two writers draft in parallel; an editor
//! returns its choice as a value of a Rust type; a lead agent has it checked by a sub-agent, which a tool written in
//! Rust starts.

use clap::Parser;
use futures_util::future::BoxFuture;
use pinion_agent::definition::Execution;
use pinion_agent::delegation::{Assignment, SubAgentError, SubAgentPolicy};
use pinion_agent::selection::Selection;
use pinion_agent::tool::{ToolError, ToolInvocation, ToolOutput, ToolProgress, ToolReply};
use pinion_agent::{Agent, Authority, Context, LoopConfig, Message, NoTools, ToolDefinition, ToolExecutor};
use pinion_examples::{ModelArgs, PLUGINS, Result, describe, each_event, exit, line, load_tools, print};
use pinion_plugin_runtime::{FileAccess, Grants};
use pinion_providers::ScriptedReply;
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

const NOTES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/notes");
const FACT_CHECK: &str = "fact_check";

/// Run a researcher, two writers, an editor, and a lead who has the result checked
#[derive(Parser)]
struct Args {
    #[command(flatten)]
    model: ModelArgs,
    /// Directory of the notes
    #[arg(long, value_name = "DIR", default_value = NOTES)]
    notes: PathBuf,
    /// Directory of the built-in plugins
    #[arg(long, value_name = "DIR", default_value = PLUGINS)]
    plugins: PathBuf,
    /// Question to answer
    #[arg(default_value = "How do bees find their way home?", requires = "model")]
    question: String,
}

/// The editor's result.
#[derive(Deserialize)]
struct Choice {
    title: String,
    writer: Writer,
    reason: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Writer {
    Plain,
    Vivid,
}

#[tokio::main]
async fn main() -> ExitCode {
    exit(work(Args::parse()).await)
}

async fn work(args: Args) -> Result<()> {
    let notes = args.notes.canonicalize()?;
    let files = BTreeMap::from([(notes.clone(), FileAccess::Read)]);
    let plugins = load_tools(&args.plugins, &notes, [("fs", Grants { files, ..Grants::default() })]).await?;
    let tools: Arc<dyn ToolExecutor> = Arc::new(Selection::new(plugins, Authority::READ_ONLY));
    let team = Team { model: args.model, tools, question: args.question };

    let facts = team.research().await?;
    let (plain, vivid) = tokio::try_join!(team.write(Writer::Plain, &facts), team.write(Writer::Vivid, &facts))?;
    let choice = team.edit(&plain, &vivid).await?;
    let text = match choice.writer {
        Writer::Plain => plain,
        Writer::Vivid => vivid,
    };
    let verdict = team.check(&text).await?;
    print(&format!("\n# {}\n\n{text}\n\nWhy this one: {}\nChecked: {verdict}\n", choice.title, choice.reason))?;
    Ok(())
}

/// Parts shared by the agents.
struct Team {
    model: ModelArgs,
    /// Tools that only read the notes.
    tools: Arc<dyn ToolExecutor>,
    question: String,
}

impl Team {
    async fn research(&self) -> Result<String> {
        let script = [
            ScriptedReply::text("I look at what there is.").and_call("list", json!({})),
            ScriptedReply::call("read", json!({ "path": "sun.md" }))
                .and_call("read", json!({ "path": "landmarks.md" })),
            ScriptedReply::text(
                "Far away, bees steer by the sun and their inner clock; near home, by landmarks that they learned.",
            ),
        ];
        let agent = self.agent("You collect facts from the notes in this directory.", self.tools.clone(), script)?;
        ask("researcher", &agent, format!("Which facts do the notes hold on this? {}", self.question)).await
    }

    async fn write(&self, writer: Writer, facts: &str) -> Result<String> {
        let (name, how, line) = match writer {
            Writer::Plain => ("plain", "plainly", "Bees steer by the sun, and near the hive by landmarks."),
            Writer::Vivid => {
                ("vivid", "vividly", "A bee carries a clock and a compass, and knows the trees of her home.")
            }
        };
        let system = format!("You write {how}: one paragraph, and no fact that you were not given.");
        let agent = self.agent(&system, Arc::new(NoTools), [ScriptedReply::text(line)])?;
        ask(name, &agent, format!("{}\n\nThe facts:\n{facts}", self.question)).await
    }

    async fn edit(&self, plain: &str, vivid: &str) -> Result<Choice> {
        let schema = json!({
            "type": "object",
            "properties": {
                "title": { "type": "string", "description": "A title for the text." },
                "writer": { "enum": ["plain", "vivid"], "description": "Whose draft is better." },
                "reason": { "type": "string", "description": "Why, in one sentence." },
            },
            "required": ["title", "writer", "reason"],
            "additionalProperties": false,
        });
        let answer = json!({ "title": "The way home", "writer": "vivid", "reason": "One remembers it." });
        let script = [ScriptedReply::call(pinion_agent::tool::ANSWER_TOOL, answer)];
        let agent = self.agent("You are an editor.", Arc::new(NoTools), script)?;
        let drafts = format!("Which is better?\n\nplain:\n{plain}\n\nvivid:\n{vivid}");
        let answer = pinion_orchestration::answer_as::<Choice>(&agent, vec![Message::user(drafts)], schema, 2).await?;
        print("editor: has chosen\n")?;
        Ok(answer.value)
    }

    async fn check(&self, text: &str) -> Result<String> {
        // The lead and its sub-agent use the same model, so one script serves both.
        let script = [
            ScriptedReply::text("I have it checked.").and_call(FACT_CHECK, json!({ "claim": text })),
            ScriptedReply::call("search", json!({ "pattern": "clock" })),
            ScriptedReply::text("The notes say so: `sun.md` has the clock and the compass."),
            ScriptedReply::text("it agrees with the notes."),
        ];
        let tools = Arc::new(FactCheck { tools: self.tools.clone() });
        let agent = self.agent("You decide whether a text may be printed. Have it checked first.", tools, script)?;
        ask("lead", &agent, format!("May this be printed? Answer in one sentence.\n\n{text}")).await
    }

    fn agent<const N: usize>(
        &self,
        system: &str,
        tools: Arc<dyn ToolExecutor>,
        script: [ScriptedReply; N],
    ) -> Result<Agent> {
        let model = self.model.or_script(script)?;
        let mut config = LoopConfig::new(model.provider, model.model, tools);
        config.ports.spawner = Some(pinion_orchestration::sub_agents(SubAgentPolicy::default()));
        Ok(Agent::new(config, Context::new(system, "pipeline")))
    }
}

/// Runs a prompt on an agent and returns its last message. Shows its calls, prefixed with its name.
async fn ask(name: &str, agent: &Agent, prompt: String) -> Result<String> {
    let (events, run) = agent.stream(vec![Message::user(prompt)], 16);
    let shown = each_event(events, |event| match line(&event.kind) {
        Some(line) => print(&format!("{name}: {line}\n")),
        None => Ok(()),
    });
    let (outcome, shown) = tokio::join!(run, shown);
    let outcome = outcome?;
    shown?;
    match describe(&outcome.end) {
        None => print(&format!("{name}: is done\n"))?,
        Some(why) => return Err(format!("the {name} was not done: {why}").into()),
    }
    Ok(outcome.text())
}

/// The tools of a team, plus one that starts a sub-agent.
struct FactCheck {
    tools: Arc<dyn ToolExecutor>,
}

impl ToolExecutor for FactCheck {
    fn definitions(&self) -> Vec<Arc<ToolDefinition>> {
        let fact_check = ToolDefinition {
            name: FACT_CHECK.to_owned(),
            label: "Fact check".to_owned(),
            description: "Has a text compared with the notes.".to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": { "claim": { "type": "string" } },
                "required": ["claim"],
                "additionalProperties": false,
            }),
            guidelines: Vec::new(),
            authority: Authority { delegates: true, ..Authority::READ_ONLY },
            execution: Execution::Parallel,
            source: Default::default(),
        };
        let mut definitions = self.tools.definitions();
        definitions.push(Arc::new(fact_check));
        definitions
    }

    fn call<'a>(&'a self, call: ToolInvocation, progress: &'a dyn ToolProgress) -> BoxFuture<'a, ToolReply> {
        match call.name() {
            FACT_CHECK => Box::pin(async { fact_check(call).await.into() }),
            _ => self.tools.call(call, progress),
        }
    }
}

/// Runs a sub-agent with a separate conversation and only its parent's reading tools. It ends with this call.
async fn fact_check(call: ToolInvocation) -> Result<ToolOutput, ToolError> {
    let tool = call.tool.name.clone();
    let Some(agents) = call.agents else {
        return Err(ToolError::Denied { tool, reason: "no sub-agents may be started here".to_owned() });
    };
    let claim = call.arguments["claim"].as_str().unwrap_or_default();
    let prompt = format!("Is every statement in this text true, as far as the notes in this directory say?\n\n{claim}");
    match agents.run(Assignment { prompt, ..Assignment::default() }, Authority::READ_ONLY, |_| true).await {
        Ok(report) => Ok(ToolOutput::text(report.for_model())),
        Err(SubAgentError::Cancelled) => Err(ToolError::Cancelled { tool }),
        Err(error) => Err(ToolError::Failed { tool, message: error.to_string(), retryable: false }),
    }
}
