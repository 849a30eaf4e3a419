//! Side questions, which the model answers from the conversation without their becoming part of it.

use crate::full::ui_inbox::UiInbox;
use pinion_agent::approval::{Approval, ApprovalMode, DenyAll};
use pinion_agent::config::ChildKind;
use pinion_agent::futures_util::future::BoxFuture;
use pinion_agent::provider::ToolChoice;
use pinion_agent::store::NoStore;
use pinion_agent::text::one_line;
use pinion_agent::tool::{ToolError, ToolInvocation, ToolProgress, ToolReply};
use pinion_agent::{Agent, Context, Message, Outcome, RunEnd, ToolDefinition, ToolExecutor};
use pinion_console::output::count;
use pinion_tui::Input;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Maximum characters of a question above its answer.
const MAX_QUESTION: usize = 300;
/// Words before the question, which the model would otherwise take for the next step of its task.
const FRAME: &str = "This is a side question. Answer it briefly from the conversation so far, without tools and without \
                     continuing your task. The question: ";

/// Answers a side question about the conversation of an agent, which may be running, in Markdown. Neither the conversation nor
/// the session learns of it; its tokens count against the limits of a run in progress, and to the totals of the agent.
pub(crate) async fn answer(agent: &Agent, question: &str, token: &CancellationToken) -> String {
    let config = agent.config();
    // Filters and the hooks of plugins check it like any prompt of the user.
    let mut side = config.child(ChildKind::Branch);
    // Vendors reject a history with calls in a request without tools, and the same beginning is in their cache.
    side.ports.tools = Arc::new(Unusable(config.ports.tools));
    side.ports.approval = Approval::new(ApprovalMode::All, Arc::new(DenyAll { reason: String::new() }));
    side.ports.store = Arc::new(NoStore);
    side.ports.spawner = None;
    // The application's hooks look after the conversation and its files.
    side.ports.hooks.clear();
    side.policy.tool_choice = ToolChoice::None;
    side.policy.limits.max_turns = Some(1);
    let session = side.policy.options.session_id.clone().unwrap_or_default();
    let context = Context { messages: complete(agent.history()), ..Context::new(agent.system_prompt(), session) };
    let asked = Agent::new(side, context);
    let asking = asked.run(vec![Message::user(format!("{FRAME}{question}"))]);
    tokio::pin!(asking);
    let outcome = tokio::select! {
        biased;
        outcome = &mut asking => outcome,
        () = token.cancelled() => {
            asked.abort();
            asking.await
        }
    };
    let question = one_line(question, MAX_QUESTION);
    let totals = asked.totals();
    agent.add(totals.requests, totals.spend);
    let tokens = count(totals.spend.usage.total(), "token");
    match outcome {
        Err(error) => format!("> /btw {question}\n\n{error}"),
        Ok(outcome) => {
            format!("> /btw {question}\n\n{}\n\n({tokens}; not part of the conversation)", text(&outcome))
        }
    }
}

/// Answers a side question on the full screen, in the background, until `token` cancels it.
pub(crate) fn ask(said: Arc<UiInbox>, agent: Arc<Agent>, question: String, token: CancellationToken) {
    tokio::spawn(async move { said.push_input(Input::SideAnswer(answer(&agent, &question, &token).await)) });
}

fn text(outcome: &Outcome) -> String {
    match (&outcome.end, outcome.text()) {
        (RunEnd::Done { .. } | RunEnd::Limit { .. }, text) if !text.trim().is_empty() => text,
        (RunEnd::Limit { .. }, _) => "no answer without tools; ask it in the conversation".to_owned(),
        (end, _) => format!("no answer: {end}"),
    }
}

/// Returns the messages up to the first call without a result, which is running.
fn complete(mut messages: Vec<Arc<Message>>) -> Vec<Arc<Message>> {
    let calls = messages.iter().rposition(|message| matches!(&**message, Message::Assistant(_)));
    if let Some(at) = calls
        && let Message::Assistant(reply) = &*messages[at]
    {
        let has_result = |id: &str| {
            messages[at..]
                .iter()
                .any(|message| matches!(&**message, Message::ToolResult(result) if result.call_id == id))
        };
        if !reply.tool_calls().all(|call| has_result(&call.id)) {
            messages.truncate(at);
        }
    }
    messages
}

/// The tools of a conversation for a request that must not use them.
struct Unusable(Arc<dyn ToolExecutor>);

impl ToolExecutor for Unusable {
    fn definitions(&self) -> Vec<Arc<ToolDefinition>> {
        self.0.definitions()
    }

    fn call<'a>(&'a self, call: ToolInvocation, _: &'a dyn ToolProgress) -> BoxFuture<'a, ToolReply> {
        let tool = call.tool.name.clone();
        Box::pin(async { Err(ToolError::UnknownTool { tool, suggestions: Vec::new() }).into() })
    }
}
