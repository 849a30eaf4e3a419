//! Decision whether a call may run: known tool and valid arguments, hooks of plugins, the user's approval, the application's hooks.

use super::{Dispatch, Ready};
use crate::extension::hooks::HookVerdict;
use crate::extension::plugin_hooks::HookCaller;
use crate::tools::result::{cut_off, similar};
use pinion_interaction::approval::{Approval, Need};
use pinion_protocol::approval::{Decision, Question};
use pinion_protocol::content::ToolCall;
use pinion_protocol::definition::ToolDefinition;
use pinion_protocol::event::EventKind;
use pinion_protocol::hook::HookNote;
use pinion_protocol::schema::followed_by_nothing_new;
use pinion_protocol::tool::ToolError;
use std::borrow::Cow;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

impl Dispatch<'_> {
    /// Finds the tool and validates the arguments.
    ///
    /// # Errors
    /// The call cannot run; the error becomes its result.
    pub(super) async fn check<'c>(
        &self,
        call: &'c ToolCall,
        definitions: &[Arc<ToolDefinition>],
    ) -> Result<Ready<'c>, ToolError> {
        let tool = definitions.iter().find(|tool| tool.name == call.name).cloned();
        let tool = tool.ok_or_else(|| match self.config.ports.tools.withheld(&call.name) {
            Some(reason) => ToolError::Denied { tool: call.name.clone(), reason },
            None => ToolError::UnknownTool { tool: call.name.clone(), suggestions: similar(&call.name, definitions) },
        })?;
        let invalid = |message| ToolError::InvalidArguments { tool: call.name.clone(), message };
        let mut accepted = Cow::Borrowed(call);
        if let Some(partial) = &call.partial {
            let arguments = followed_by_nothing_new(partial).ok_or_else(|| invalid(cut_off(partial)))?;
            accepted = Cow::Owned(ToolCall { arguments, partial: None, ..call.clone() });
        }
        let checked = self.config.schemas.check(&tool, &accepted.arguments).await.map_err(invalid)?;
        if let Cow::Owned(arguments) = checked {
            accepted.to_mut().arguments = arguments;
        }
        Ok(Ready { call: accepted, tool, notes: Vec::new() })
    }

    /// Asks about a call if necessary.
    ///
    /// # Errors
    /// The call may not run.
    async fn approve(&self, ready: &Ready<'_>, token: &CancellationToken) -> Result<(), ToolError> {
        let Ready { call, tool, notes } = ready;
        let approval = &self.config.ports.approval;
        let question = Question { call, tool, notes, agent: self.config.agent.as_deref() };
        if let Some(decided) = settled(approval, &question) {
            return decided;
        }
        let Some(turn) = token.run_until_cancelled(approval.turn()).await else { return Ok(()) };
        // The previous answer may already cover this call.
        if let Some(decided) = settled(approval, &question) {
            return decided;
        }
        let (call_id, name) = (call.id.clone(), tool.name.clone());
        let requested =
            EventKind::ApprovalRequested { call_id: call_id.clone(), tool: name.clone(), authority: tool.authority };
        self.report(requested).await;
        let (denied, unanswered) = match approval.ask(question, token, &turn).await {
            Some(Decision::Allow | Decision::AllowForSession) => (None, None),
            Some(Decision::Deny { reason }) => (Some(ToolError::Denied { tool: name, reason }), None),
            Some(Decision::Unanswered { reason }) => {
                (Some(ToolError::Denied { tool: name, reason: reason.clone() }), Some(reason))
            }
            // The user did not deny it: the call is skipped.
            None => (Some(ToolError::Cancelled { tool: name }), None),
        };
        self.report(EventKind::ApprovalResolved { call_id, allowed: denied.is_none(), unanswered }).await;
        denied.map_or(Ok(()), Err)
    }

    /// Lets the hooks of plugins check a call and rewrite its arguments.
    ///
    /// # Errors
    /// The call may not run.
    async fn check_hooks(&self, ready: &mut Ready<'_>, token: &CancellationToken) -> Result<(), ToolError> {
        let hooks = HookCaller { token, ..self.plugin_hooks() };
        let accepted = hooks.before_call(&ready.call, &ready.tool).await?;
        if let Some(arguments) = accepted.arguments {
            ready.call.to_mut().arguments = arguments;
        }
        ready.notes = accepted.notes;
        Ok(())
    }

    /// Asks the application's hooks, which can deny a call that was approved, or have the user decide on it.
    async fn ask_hooks(&self, ready: &mut Ready<'_>, token: &CancellationToken) -> Result<(), ToolError> {
        let text = match self.hooks().before_tool(&ready.call).await {
            HookVerdict::Pass => return Ok(()),
            HookVerdict::Deny(reason) => return Err(ToolError::Denied { tool: ready.call.name.clone(), reason }),
            HookVerdict::Ask(reason) => reason,
        };
        ready.notes.push(HookNote::Application { text: text.clone() });
        let approved = self.approve(ready, token).await;
        ready.notes.pop();
        approved?;
        if !token.is_cancelled() {
            self.hooks().after_question(&ready.call, &text).await;
        }
        Ok(())
    }

    /// Decides whether a call may run.
    pub(super) async fn decide<'c>(
        &self,
        ready: Result<Ready<'c>, ToolError>,
        token: &CancellationToken,
    ) -> Result<Ready<'c>, ToolError> {
        let mut ready = ready?;
        self.check_hooks(&mut ready, token).await?;
        self.approve(&ready, token).await?;
        if !token.is_cancelled() {
            self.ask_hooks(&mut ready, token).await?;
        }
        match token.is_cancelled() {
            true => Err(ToolError::Cancelled { tool: ready.call.name.clone() }),
            false => Ok(ready),
        }
    }

    /// Prepares a call for the current version of the tool. A decision on the same code with the same arguments remains
    /// valid.
    pub(super) async fn decide_again<'c>(
        &self,
        wrote: &'c ToolCall,
        decided: &Ready<'_>,
        token: &CancellationToken,
    ) -> Result<Ready<'c>, ToolError> {
        let mut ready = self.check(wrote, &self.config.ports.tools.definitions()).await?;
        self.check_hooks(&mut ready, token).await?;
        let is_same = ready.call.arguments == decided.call.arguments && ready.notes == decided.notes;
        if !is_same || !ready.tool.runs_same_code(&decided.tool) {
            self.approve(&ready, token).await?;
        }
        self.ask_hooks(&mut ready, token).await?;
        Ok(ready)
    }
}

/// Decides on a call that needs no answer of the user; `None` if it needs one.
fn settled(approval: &Approval, question: &Question<'_>) -> Option<Result<(), ToolError>> {
    match approval.need(question) {
        Need::Answer => None,
        Need::Nothing(by) => {
            approval.conclude(question, true, by);
            Some(Ok(()))
        }
        Need::Denied(reason, by) => {
            approval.refuse(question, &reason, by);
            Some(Err(ToolError::Denied { tool: question.tool.name.clone(), reason }))
        }
    }
}
