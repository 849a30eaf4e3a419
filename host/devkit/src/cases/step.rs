//! Runs the steps of a case.

use super::case::{Case, StepAction, TestStep};
use super::script::{Effect, Results, ScriptedMessage, ScriptedServer, authority};
use super::verdict;
use pinion_agent::content::text_of;
use pinion_app::output::text;
use pinion_app::screen::Screen;
use pinion_plugin_runtime::HostAction as CommandAction;
use pinion_plugin_test::{CompletionTask, Hooked, Host, Plugin, Running, SecretPlacement, Seen, TestError, ToolOutput};
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

/// Time that a later step waits for a tool that the plugin may be about to offer.
const OFFER: Duration = Duration::from_secs(2);

/// The result of a step.
#[derive(Debug, Default)]
pub(super) struct StepOutcome {
    pub(super) text: String,
    pub(super) details: Option<Value>,
    pub(super) error: Option<String>,
    /// The remedy of the error.
    pub(super) hint: Option<String>,
    pub(super) submit: Option<String>,
    pub(super) print: Option<String>,
    pub(super) insert: Option<String>,
    pub(super) completes: Option<Vec<String>>,
    pub(super) hooked: Option<Hooked>,
    /// The tools that the plugin offers afterwards.
    pub(super) offers: Vec<String>,
    pub(super) asked: Vec<String>,
    pub(super) requests: Vec<String>,
    pub(super) called: Vec<String>,
    pub(super) prompts: Vec<String>,
    pub(super) notices: Vec<String>,
    /// A scripted answer that does not fit its question.
    pub(super) misfit: Option<String>,
    pub(super) time_us: u64,
}

/// Loads the plugin with the script of a case.
pub(super) async fn start(component: &Path, case: &Case, host: &Host) -> Result<Running, TestError> {
    let mut plugin = Plugin::load(component).host(host.clone()).limits(case.limits.clone());
    for grant in &case.grant {
        plugin = plugin.grant(grant);
    }
    let origins: Vec<String> = case.server.keys().map(|origin| format!("{}/", with_scheme(origin))).collect();
    for (name, secret) in &case.secret {
        let hosts: Vec<&str> = secret.hosts.as_ref().unwrap_or(&origins).iter().map(String::as_str).collect();
        let placement = SecretPlacement::Header { name: secret.header.clone(), scheme: secret.scheme.clone() };
        plugin = plugin.secret_at(name, &secret.value, &hosts, placement);
    }
    for (origin, answers) in &case.server {
        let server = ScriptedServer::new(answers.0.clone());
        plugin = plugin.server(&with_scheme(origin), move |request| server.answer(request));
    }
    for (name, answers) in &case.tools {
        let effects: Vec<Effect> = answers.0.iter().flat_map(|answer| answer.effects.clone()).collect();
        let results = Results::new(&answers.0);
        plugin = plugin.tool(name, authority(&effects), move |_| results.next());
    }
    for said in &case.session {
        plugin = match said {
            ScriptedMessage::User(text) => plugin.message(text),
            ScriptedMessage::Assistant(text) => plugin.reply(text),
        };
    }
    if let Some(first) = case.steps.first() {
        plugin = plugin.settings(first.settings.clone().unwrap_or_default());
        for (path, text) in &first.files {
            plugin = plugin.file(path, text.as_str());
        }
    }
    plugin.start().await
}

/// Completes an origin such as `api.example.com`.
fn with_scheme(origin: &str) -> String {
    let origin = origin.trim_end_matches('/');
    if origin.contains("://") { origin.to_owned() } else { format!("https://{origin}") }
}

/// Runs a step and returns its outcome.
///
/// # Errors
/// The step itself is wrong: it names a tool, command or hook that the plugin does not have, or its input does not fit.
pub(super) async fn run(
    running: &Running,
    step: &TestStep,
    is_first: bool,
    screen: &dyn Screen,
) -> Result<StepOutcome, TestError> {
    if !is_first {
        for (path, text) in &step.files {
            running.write(path, text)?;
        }
        if let Some(settings) = &step.settings {
            running.reload_with(settings.clone()).await?;
        }
    }
    if step.reload {
        running.reload().await?;
    }
    for answer in &step.answer {
        running.answer(answer.0.clone());
    }
    for completion in &step.completion {
        running.completion(completion.0.clone());
    }
    let (before, received) = (running.seen(), running.received().len());
    let mut outcome = match &step.action {
        StepAction::Tool(tool) => call(running, tool, &step.input, is_first, screen).await?,
        StepAction::Command(command) => command_outcome(running, command, &step.input).await,
        StepAction::Complete(command) => {
            let completions = running.complete(command, step.input.as_str().unwrap_or_default()).await;
            let values = completions.into_iter().map(|completion| completion.value).collect();
            StepOutcome { completes: Some(values), ..StepOutcome::default() }
        }
        StepAction::Hook(point) => hook(running, point, &step.input).await?,
        StepAction::Nothing => StepOutcome::default(),
    };
    outcome.enter(running, &before, received);
    outcome.offers = offers(running, step.expected.offers.as_deref()).await;
    Ok(outcome)
}

impl StepOutcome {
    /// Adds the plugin's use of its conversation and of servers since a step began.
    fn enter(&mut self, running: &Running, before: &Seen, received: usize) {
        let seen = running.seen();
        self.asked = seen.asked[before.asked.len()..].iter().map(|asked| asked.dialog.question.clone()).collect();
        self.called = seen.called[before.called.len()..].iter().map(|called| called.tool.clone()).collect();
        self.prompts = seen.completions[before.completions.len()..].iter().map(prompt).collect();
        self.notices = seen.notices[before.notices.len()..].to_vec();
        self.misfit = seen.misfits.get(before.misfits.len()).cloned();
        let requests = running.received().into_iter().skip(received);
        self.requests = requests.map(|request| format!("{} {}", request.method(), request.uri())).collect();
    }
}

/// Returns the text of a request to a model.
fn prompt(task: &CompletionTask) -> String {
    task.turns.iter().map(|turn| text_of(turn)).collect::<Vec<_>>().join("\n")
}

async fn call(
    running: &Running,
    tool: &str,
    input: &Value,
    is_first: bool,
    screen: &dyn Screen,
) -> Result<StepOutcome, TestError> {
    let input = if input.is_null() { json!({}) } else { input.clone() };
    if !is_first && !running.tools().iter().any(|offered| offered == tool) {
        // Without it, the call is refused with the tools that there are.
        let _ = tokio::time::timeout(OFFER, running.offers(tool)).await;
    }
    running.accepts(tool, input.clone()).await?;
    let reply = running.call(tool, input).await;
    reply.progress.iter().for_each(|line| screen.note(&text!("… {}", line)));
    let time_us = reply.ledger.time_us;
    Ok(match reply.result {
        Ok(output) => {
            let text = output.to_text();
            let error = output.is_error.then(|| text.clone());
            StepOutcome { text, details: output.details, error, time_us, ..StepOutcome::default() }
        }
        Err(error) => StepOutcome { time_us, ..failed(&error) },
    })
}

fn failed(error: &TestError) -> StepOutcome {
    let hint = error.remedy().map(str::to_owned);
    StepOutcome { error: Some(error.message().to_owned()), hint, ..StepOutcome::default() }
}

async fn command_outcome(running: &Running, command: &str, input: &Value) -> StepOutcome {
    let actions = match running.command(command, input.as_str().unwrap_or_default()).await {
        Ok(actions) => actions,
        Err(error) => return failed(&error),
    };
    let mut outcome = StepOutcome::default();
    for action in actions {
        match action {
            CommandAction::Submit(text) => outcome.submit = Some(text),
            CommandAction::Print(text) => outcome.print = Some(text),
            CommandAction::Insert(text) => outcome.insert = Some(text),
            _ => {}
        }
    }
    let shown = [&outcome.print, &outcome.submit, &outcome.insert];
    outcome.text = shown.into_iter().flatten().next().cloned().unwrap_or_default();
    outcome
}

/// The call that a hook checks.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct HookedCall {
    tool: String,
    #[serde(default)]
    arguments: Value,
    /// The effects that the tool declares, if the case does not script it.
    #[serde(default)]
    effects: Vec<Effect>,
    /// The outcome, for `after-tool-call`.
    #[serde(default)]
    output: String,
    details: Option<Value>,
    #[serde(default)]
    is_error: bool,
}

/// The part of a conversation that a summary replaces.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Compaction {
    #[serde(default)]
    messages: usize,
    #[serde(default)]
    tokens: u64,
    instructions: Option<String>,
}

/// Calls a hook with the input of a step.
async fn hook(running: &Running, point: &str, input: &Value) -> Result<StepOutcome, TestError> {
    let hooked = match point {
        "before-tool-call" | "after-tool-call" => {
            let call: HookedCall = read(point, input)?;
            let arguments = if call.arguments.is_null() { json!({}) } else { call.arguments };
            let is_own = running.tools().contains(&call.tool);
            if !is_own && !running.scripts(&call.tool) {
                running.tool(&call.tool, authority(&call.effects), |_| Ok(ToolOutput::text("")));
            }
            match point {
                "before-tool-call" => running.before_tool_call(&call.tool, arguments).await?,
                _ => {
                    let output = ToolOutput { details: call.details, ..ToolOutput::text(call.output) };
                    let output = ToolOutput { is_error: call.is_error, ..output };
                    running.after_tool_call(&call.tool, arguments, output).await?
                }
            }
        }
        "before-prompt" => running.before_prompt(&read::<String>(point, input)?).await?,
        "before-compaction" => {
            let part: Compaction = read(point, input)?;
            running.before_compaction(part.messages, part.tokens, part.instructions.as_deref()).await?
        }
        "session-events" => {
            running.session_events(&read::<Vec<Value>>(point, input)?).await?;
            return Ok(StepOutcome::default());
        }
        unknown => {
            return Err(TestError::with_hint(
                format!("unknown hook `{unknown}`"),
                "the hooks are before-tool-call, after-tool-call, before-prompt, before-compaction, session-events",
            ));
        }
    };
    let error = match &hooked {
        Hooked::Fails(text) => Some(text.clone()),
        _ => None,
    };
    Ok(StepOutcome { text: verdict::text(&hooked), error, hooked: Some(hooked), ..StepOutcome::default() })
}

/// Reads the input of a hook.
fn read<T: serde::de::DeserializeOwned>(point: &str, input: &Value) -> Result<T, TestError> {
    let form = match point {
        "before-tool-call" => "{ tool = \"bash\", arguments = { command = \"ls\" }, effects = [\"executes\"] }",
        "after-tool-call" => {
            "{ tool = \"bash\", arguments = { command = \"ls\" }, output = \"a.txt\", is-error = false }"
        }
        "before-prompt" => "\"the prompt\"",
        "before-compaction" => "{ messages = 5, tokens = 1000, instructions = \"…\" }",
        _ => "[{ type = \"turn_end\" }]",
    };
    serde_json::from_value(input.clone()).map_err(|error| {
        TestError::with_hint(format!("`input` of the hook `{point}`: {error}"), format!("for example input = {form}"))
    })
}

/// Returns the tools that the plugin offers, once they are those that are expected or the host has had time to ask.
async fn offers(running: &Running, expected: Option<&[String]>) -> Vec<String> {
    let now = || {
        let mut tools = running.tools();
        tools.sort();
        tools
    };
    let Some(expected) = expected else { return now() };
    let mut sorted = expected.to_vec();
    sorted.sort();
    let is_there = async {
        while now() != sorted {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    // The comparison reports missing tools.
    let _ = tokio::time::timeout(OFFER, is_there).await;
    now()
}
