//! Agents that make plans, and agents that execute them.

use super::{Plan, PlanError, Step, StepStatus};
use crate::structured::{AnswerError, StructuredAnswer, answer_as, answer_with};
use pinion_agent::Agent;
use pinion_agent::selection::Selection;
use pinion_protocol::authority::Authority;
use pinion_protocol::event::EventKind;
use pinion_protocol::message::Message;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;

/// Instructions for a planner, appended to the system prompt.
const PLANNER: &str = "\
# Planning

Your task is to make a plan without changing anything. Explore the project as far as the plan requires; none of your tools \
can change files or run programs. The agent that executes the plan gets the plan and the project, but nothing from this \
conversation, so the plan must contain everything it needs to know.

- The summary states the goal, what you found, and what you decided and why.
- Each step is small enough to be done and verified on its own, and leaves the project in a working state. List the steps \
in the order of execution.
- Each step names the files it touches and its acceptance criteria, which must be verifiable: for example, a command and \
its expected output.
- Plan what was requested, and nothing more.";

/// The reason for the refusal of other calls during planning.
pub(super) const ONLY_READING: &str =
    "in plan mode, only tools that read can be called; describe the change in the plan instead";

/// Maximum number of reminders to give the answer.
const REMINDERS: u32 = 2;

/// The result of a plan step, as reported by the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepReport {
    /// True if all acceptance criteria are met.
    pub done: bool,
    /// The work and the observations, or the reason the step is not done.
    pub report: String,
}

/// Makes a plan: runs the prompts with read-only tools, even if the agent's own tools can do more, and returns the plan
/// in normal form. Does not write it to a file. Emits [`EventKind::PlanMade`].
///
/// # Errors
/// See [`AnswerError`]. The history contains all messages up to the error.
pub async fn make_plan(agent: &Agent, prompts: Vec<Message>) -> Result<StructuredAnswer<Plan>, AnswerError> {
    let mut config = agent.config();
    // Delegation is safe: sub-agents get no more authority than the tool that starts them.
    let read_only = Authority { delegates: true, ..Authority::READ_ONLY };
    config.ports.tools = Arc::new(Selection::new(config.ports.tools, read_only).with_reason(ONLY_READING));
    let answer = answer_with(agent, config, Some(PLANNER), prompts, plan_schema(), REMINDERS).await?;
    let plan = serde_json::from_value::<Plan>(answer.value)?.normal();
    let made = EventKind::PlanMade { title: plan.title.clone(), steps: plan.steps.len() };
    agent.report(&agent.last_run_id()?, made).await;
    Ok(StructuredAnswer { value: plan, outcome: answer.outcome })
}

/// Executes one step of a plan, counted from 0, and returns its report. Call it for each step in turn, on an agent
/// whose conversation starts empty; the plan may change in between. The caller records the statuses. A step with the
/// status `running` or `failed` is treated as partly done.
///
/// Emits [`EventKind::PlanStep`] when the step starts and when it ends. An interrupted step ends with the status
/// `running`.
///
/// A step with a denied call never counts as done, whether the user denied it or no user could be asked.
///
/// # Errors
/// Fails if the step does not exist, the model gives no report, or a call was denied: see [`AnswerError`].
pub async fn execute_step(
    agent: &Agent,
    plan: &Plan,
    index: usize,
) -> Result<StructuredAnswer<StepReport>, AnswerError> {
    let steps = plan.steps.len();
    let step = plan.steps.get(index).ok_or(PlanError::NoSuchStep { step: index + 1, steps })?;
    let event = |status| EventKind::PlanStep { step: index + 1, steps, title: step.title.clone(), status };
    agent.report(&agent.next_run_id()?, event(StepStatus::Running)).await;
    let label = format!("instructions for step {} of {steps}: {}", index + 1, step.title);
    let prompt = vec![Message::labelled(label, assignment(plan, index, step))];
    let approval = agent.config().ports.approval;
    let denied_before = approval.denied_count();
    let mut answer = answer_as::<StepReport>(agent, prompt, report_schema(), REMINDERS).await;
    if let (Ok(answered), Some(calls)) = (&answer, approval.denied_since(denied_before)) {
        answer = Err(AnswerError::Denied { calls, report: answered.value.report.clone() });
    }
    agent.report(&agent.last_run_id()?, event(status_after(&answer))).await;
    answer
}

/// Returns the status of a step after its execution.
fn status_after(answer: &Result<StructuredAnswer<StepReport>, AnswerError>) -> StepStatus {
    match answer {
        Ok(answer) if answer.value.done => StepStatus::Done,
        Err(error) if error.is_abort() => StepStatus::Running,
        Ok(_) | Err(_) => StepStatus::Failed,
    }
}

fn assignment(plan: &Plan, index: usize, step: &Step) -> String {
    let (number, steps, title) = (index + 1, plan.steps.len(), &step.title);
    let before = match step.status {
        StepStatus::Open => "",
        StepStatus::Running => {
            "\n- The step was started before and interrupted, so it may be partly done. Check the current state first."
        }
        StepStatus::Failed => {
            "\n- The step was attempted before and failed, so it may be partly done. Check the current state first."
        }
        StepStatus::Done => "\n- The step was completed before and must be done again.",
    };
    format!(
        "The user has approved this plan. Each step has a status, which is maintained for you; do not write statuses \
         yourself.\n\n<plan>\n{}</plan>\n\nDo step {number} of {steps} now: {title}\n\n\
         - Complete this step and do none of the others. Build on the steps that are done.{before}\n\
         - Then verify all its acceptance criteria under `Done when`, by inspection or by running a suitable command.\n\
         - Finally call `final_answer`: set `done` to true only if you have verified that all criteria are met. In the \
         report, state briefly what you did and observed, or what prevents the step from being done.",
        plan.to_markdown()
    )
}

fn plan_schema() -> Value {
    let line =
        |max: usize, what: &str| json!({ "type": "string", "minLength": 1, "maxLength": max, "description": what });
    let list = |min: usize, max: usize, item: Value, what: &str| json!({ "type": "array", "minItems": min, "maxItems": max, "items": item, "description": what });
    let text = |max: usize, what: &str| json!({ "type": "string", "maxLength": max, "description": what });
    let step = json!({
        "type": "object",
        "properties": {
            "title": line(200, "Short title of the step"),
            "description": text(4000, "The work to do and how to do it, in Markdown"),
            "files": list(0, 50, line(300, "A path"), "Files that the step touches; may be empty"),
            "acceptance": list(1, 20, line(500, "A verifiable criterion"), "Acceptance criteria of the step"),
        },
        "required": ["title", "description", "files", "acceptance"],
        "additionalProperties": false,
    });
    json!({
        "type": "object",
        "properties": {
            "title": line(200, "Short title of the plan"),
            "summary": text(8000, "The goal, the findings and the decisions, in Markdown"),
            "steps": list(1, 50, step, "Steps in the order of execution"),
        },
        "required": ["title", "summary", "steps"],
        "additionalProperties": false,
    })
}

fn report_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "done": { "type": "boolean", "description": "True if all acceptance criteria of the step are met" },
            "report": { "type": "string", "minLength": 1, "maxLength": 8000, "description": "What was done and observed" },
        },
        "required": ["done", "report"],
        "additionalProperties": false,
    })
}
