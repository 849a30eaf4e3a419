//! The import `agents`. The loop that made the call runs the sub-agents.

use super::Agents;
use crate::bindings::pinion::plugin::agents::{self, AgentError, Assignment, Kind, Report};
use crate::calls::state::State;
use crate::convert;
use pinion_plugin_contract::assignment_extra::AssignmentExtra;
use pinion_plugin_journal::linker::Linker;
use pinion_protocol::spend_meter::SpendMeter;
use pinion_protocol::{ChoiceName, ParallelAttempts, SubAgentError};
use std::sync::Arc;
use std::time::Duration;
use wasmtime::component::HasSelf;

pub(crate) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    agents::add_to_linker::<State, HasSelf<State>>(linker, |state| state)
}

impl agents::Host for State {
    async fn kinds(&mut self) -> wasmtime::Result<Vec<Kind>> {
        let kinds = if self.call.authority.is_granted::<Agents>() { self.info.agents() } else { Vec::new() };
        Ok(kinds.into_iter().map(|kind| Kind { name: kind.name, description: kind.description }).collect())
    }

    async fn run(&mut self, assignment: Assignment) -> wasmtime::Result<Result<Report, AgentError>> {
        let grant = match self.call.authority.check::<Agents>() {
            Ok(grant) => grant.clone(),
            Err(denied) => return Ok(Err(AgentError::Denied(denied.to_string()))),
        };
        let Some(sub_agents) = self.call.agents.clone() else {
            let why = match self.call.may_invoke {
                false => "the plugin is of lifetime `session`",
                true => "it is too deep, or this is not the call of a tool in a conversation",
            };
            return Ok(Err(AgentError::Denied(format!("no agents can be started here: {why}"))));
        };
        self.spend_output(assignment_bytes(&assignment))?;
        let meters = match self.meters() {
            Ok(meters) => meters,
            Err(reached) => return Ok(Err(AgentError::Denied(reached))),
        };
        let extra = match AssignmentExtra::parse(assignment.extra.as_deref()) {
            Ok(extra) => extra,
            Err(problem) => return Ok(Err(AgentError::Invalid(problem))),
        };
        // Its report can repeat everything that it has read.
        if extra.reads_conversation()
            && let Err(denied) = self.check_reads_session()
        {
            return Ok(Err(AgentError::Denied(denied)));
        }
        self.account.capabilities.agents.started += 1;
        let at_most = self.call.authority.declared();
        let assignment = pinion_protocol::Assignment { meters, ..self::assignment(assignment, extra) };
        let running = sub_agents.run(assignment, at_most, move |tool| grant.allows(tool));
        Ok(running.await.map(report).map_err(error))
    }
}

impl State {
    /// Returns the sums that the plugin's spend counts against.
    ///
    /// # Errors
    /// The limit of one is reached.
    pub(crate) fn meters(&self) -> Result<Vec<Arc<dyn SpendMeter>>, String> {
        let meters = self.info.meters(&self.plugin);
        match meters.iter().find_map(|meter| meter.reached()) {
            Some(reached) => Err(format!("plugin `{}` may spend nothing more: {reached}", self.plugin)),
            None => Ok(meters),
        }
    }
}

fn assignment_bytes(assignment: &Assignment) -> usize {
    let tools = assignment.tools.iter().flatten().map(|tool| tool.len() + size_of::<String>()).sum::<usize>();
    let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    assignment.prompt.len() + text(&assignment.kind) + text(&assignment.extra) + tools
}

fn assignment(assignment: Assignment, extra: AssignmentExtra) -> pinion_protocol::Assignment {
    pinion_protocol::Assignment {
        prompt: assignment.prompt,
        kind: assignment.kind,
        tools: assignment.tools,
        max_turns: assignment.max_turns,
        max_time: assignment.timeout_ms.map(|ms| Duration::from_millis(ms.into())),
        attempts: assignment.attempts.map(attempts),
        start: extra.start(),
        background: extra.background,
        meters: Vec::new(),
        model: extra.model,
    }
}

fn attempts(attempts: agents::Attempts) -> ParallelAttempts {
    let choice = match attempts.choice {
        agents::Choice::First => ChoiceName::First,
        agents::Choice::FewestTokens => ChoiceName::FewestTokens,
        agents::Choice::MostTokens => ChoiceName::MostTokens,
        agents::Choice::Judge => ChoiceName::Judge,
    };
    ParallelAttempts { count: attempts.count, choice }
}

fn report(report: pinion_protocol::SubAgentReport) -> Report {
    Report {
        shortfall: report.shortfall(),
        text: report.text,
        loop_id: report.run_id.to_string(),
        turns: report.turns,
        input_tokens: convert::count(report.spend.usage.total() - report.spend.usage.output),
        output_tokens: convert::count(report.spend.usage.output),
    }
}

fn error(error: SubAgentError) -> AgentError {
    match error {
        SubAgentError::Cancelled => AgentError::Cancelled,
        SubAgentError::Model { .. } | SubAgentError::Directory { .. } => AgentError::Failed(error.to_string()),
        SubAgentError::NoPrompt
        | SubAgentError::UnknownKind { .. }
        | SubAgentError::UnknownTool { .. }
        | SubAgentError::Attempts { .. }
        | SubAgentError::TooMany { .. }
        | SubAgentError::ModelNotListed { .. }
        | SubAgentError::BackgroundAttempts
        | SubAgentError::BackgroundFull { .. }
        | _ => AgentError::Invalid(error.to_string()),
    }
}
