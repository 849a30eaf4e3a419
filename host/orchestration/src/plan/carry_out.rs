//! Agents that make plans, and agents that carry them out.

use super::{Plan, PlanError, Step, StepStatus};
use crate::structured::{Answer, AnswerError, answer_as, answer_with};
use pinion_agent::Agent;
use pinion_agent::Selection;
use pinion_protocol::authority::Authority;
use pinion_protocol::event::EventKind;
use pinion_protocol::message::Message;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;

/// What a planner is told, after the system prompt.
const PLANNER: &str = "\
# Planning

You make a plan now, and change nothing. Look at what is there as far as the plan needs it; nothing that you can call \
changes a file or runs a program. Whoever carries the plan out gets the plan and the project, and nothing of this \
conversation: all that they have to know stands in the plan.

- The summary says what is to come of it, what you found, and what you decided and why.
- Each step is small enough to be done and checked by itself, and leaves the project in order. Steps come in the order in \
which they are to be done.
- Each step names the files that it touches, and says how to see that it is done: criteria that can be checked, such as a \
command and what it prints.
- Plan what was asked, and no more.";

/// How often a model is told to give its answer.
const REMINDERS: u32 = 2;

/// What came of a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepReport {
    /// Are all acceptance criteria met?
    pub done: bool,
    /// What was done and seen, or what keeps the step from being done.
    pub report: String,
}

/// Makes a plan: works prompts off with tools that can read and nothing else, whatever the agent's own can do, and
/// ends with the plan, in its normal form. Nothing is written to a file.
///
/// # Errors
/// See [`AnswerError`]. What was said until then is in the history.
pub async fn make_plan(agent: &Agent, prompts: Vec<Message>) -> Result<Answer<Plan>, AnswerError> {
    let mut config = agent.config();
    // Agents that are started get no more authority than the tool that starts them.
    let looks_only = Authority { delegates: true, ..Authority::READ_ONLY };
    config.ports.tools = Arc::new(Selection::new(config.ports.tools, looks_only));
    let answer = answer_with(agent, config, Some(PLANNER), prompts, plan_schema(), REMINDERS).await?;
    let plan: Plan = serde_json::from_value(answer.value)?;
    Ok(Answer { value: plan.normal(), outcome: answer.outcome })
}

/// Does one step of a plan, counted from 0, and reports. To be called of an agent whose conversation is empty, and
/// then for each step in turn; the plan may have changed in between. Statuses are the caller's to keep: a step that
/// was begun before, by the plan, is taken to be half done.
///
/// Watchers are told by [`EventKind::PlanStep`] when the step begins and when it ends. One that was interrupted ends
/// with the status `running`.
///
/// A step of which a call was denied, by a person or because no one could be asked, is never done.
///
/// # Errors
/// There is no such step, no report, or a call was denied: see [`AnswerError`].
pub async fn execute_step(agent: &Agent, plan: &Plan, index: usize) -> Result<Answer<StepReport>, AnswerError> {
    let steps = plan.steps.len();
    let step = plan.steps.get(index).ok_or(PlanError::NoSuchStep { step: index + 1, steps })?;
    let event = |status| EventKind::PlanStep { step: index + 1, steps, title: step.title.clone(), status };
    agent.report(&agent.next_loop_id()?, event(StepStatus::Running)).await;
    let prompt = vec![Message::user(assignment(plan, index, step))];
    let approval = agent.config().ports.approval;
    let denied_before = approval.denied_count();
    let mut answer = answer_as::<StepReport>(agent, prompt, report_schema(), REMINDERS).await;
    if let (Ok(told), Some(calls)) = (&answer, approval.denied_since(denied_before)) {
        answer = Err(AnswerError::Denied { calls, report: told.value.report.clone() });
    }
    agent.report(&agent.last_loop_id()?, event(status_after(&answer))).await;
    answer
}

/// How far a step is after this.
fn status_after(answer: &Result<Answer<StepReport>, AnswerError>) -> StepStatus {
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
            "\n- The step was begun before and interrupted: it may be half done. Look at what is there first."
        }
        StepStatus::Failed => {
            "\n- The step was tried before and failed: it may be half done. Look at what is there first."
        }
        StepStatus::Done => "\n- The step was done before, and is to be done again.",
    };
    format!(
        "The user has approved this plan. The status of a step says how far it is; statuses are kept for you, so do not \
         write them anywhere.\n\n<plan>\n{}</plan>\n\nDo step {number} of {steps} now: {title}\n\n\
         - Do this step, all of it, and none of the others. Build on those that are done.{before}\n\
         - Then check each of its acceptance criteria, below `Done when`, by looking or by running what shows it.\n\
         - At the end call `final_answer`: `done` is true when all criteria are met and you have seen it. The report says \
         briefly what you did and what you saw, or what keeps the step from being done.",
        plan.to_markdown()
    )
}

fn plan_schema() -> Value {
    let line =
        |most: usize, what: &str| json!({ "type": "string", "minLength": 1, "maxLength": most, "description": what });
    let list = |least: usize, most: usize, item: Value, what: &str| json!({ "type": "array", "minItems": least, "maxItems": most, "items": item, "description": what });
    let text = |most: usize, what: &str| json!({ "type": "string", "maxLength": most, "description": what });
    let step = json!({
        "type": "object",
        "properties": {
            "title": line(200, "What the step does, in a few words"),
            "description": text(4000, "What is to be done and how. Markdown"),
            "files": list(0, 50, line(300, "A path"), "The files that the step touches; empty when it touches none"),
            "acceptance": list(1, 20, line(500, "What can be seen when the step is done"), "When the step is done"),
        },
        "required": ["title", "description", "files", "acceptance"],
        "additionalProperties": false,
    });
    json!({
        "type": "object",
        "properties": {
            "title": line(200, "What the plan is for, in a few words"),
            "summary": text(8000, "What comes of it, what was found, what was decided. Markdown"),
            "steps": list(1, 50, step, "The steps, in the order in which they are to be done"),
        },
        "required": ["title", "summary", "steps"],
        "additionalProperties": false,
    })
}

fn report_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "done": { "type": "boolean", "description": "Are all acceptance criteria of the step met?" },
            "report": { "type": "string", "minLength": 1, "maxLength": 8000, "description": "What was done and seen" },
        },
        "required": ["done", "report"],
        "additionalProperties": false,
    })
}
