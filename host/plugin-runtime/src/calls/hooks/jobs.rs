//! The calls of hooks on an instance. Answers count against the output limit, like results of tools.

use crate::bindings::exports::pinion::plugin::before_compaction::Compaction;
use crate::bindings::exports::pinion::plugin::before_prompt::PromptVerdict;
use crate::bindings::exports::pinion::plugin::before_tool_call::Verdict;
use crate::bindings::pinion::plugin::types::{CallContext, ToolCall, ToolError, ToolOutput};
use crate::calls::instance::{InstanceJob, Live};
use crate::convert;
use crate::loading::instance_template::ExportedFunction;
use pinion_plugin_limits::GuestError;
use pinion_protocol::HookPoint;
use std::sync::Arc;

/// Asks whether a call may be approved.
pub(super) struct BeforeCall {
    pub(super) context: CallContext,
    pub(super) call: ToolCall,
}

impl InstanceJob for BeforeCall {
    type Answer = Verdict;

    async fn run(self, live: &mut Live<'_>) -> wasmtime::Result<Verdict> {
        let export = export(live, HookPoint::BeforeToolCall)?;
        let (verdict,) = live.call::<_, (Verdict,)>(&export, (&self.context, &self.call)).await?;
        live.state().spend_output(match &verdict {
            Verdict::Proceed => 0,
            Verdict::Deny(text) | Verdict::Ask(text) | Verdict::Rewrite(text) => text.len(),
        })?;
        Ok(verdict)
    }
}

/// An outcome, as guests see and return it.
pub(super) type GuestOutcome = Result<ToolOutput, ToolError>;

/// Lets a hook revise the outcome of a call.
pub(super) struct AfterCall {
    pub(super) context: CallContext,
    pub(super) call: ToolCall,
    pub(super) outcome: GuestOutcome,
}

impl InstanceJob for AfterCall {
    type Answer = Option<GuestOutcome>;

    async fn run(self, live: &mut Live<'_>) -> wasmtime::Result<Self::Answer> {
        let export = export(live, HookPoint::AfterToolCall)?;
        let parameters = (&self.context, &self.call, &self.outcome);
        let (revised,) = live.call::<_, (Self::Answer,)>(&export, parameters).await?;
        let bytes = match &revised {
            None => 0,
            Some(Ok(output)) => convert::output_bytes(output),
            Some(Err(error)) => convert::error_bytes(error),
        };
        live.state().spend_output(bytes)?;
        Ok(revised)
    }
}

/// Asks whether a prompt may be sent.
pub(super) struct BeforePrompt {
    pub(super) context: CallContext,
    pub(super) prompt: String,
}

impl InstanceJob for BeforePrompt {
    type Answer = PromptVerdict;

    async fn run(self, live: &mut Live<'_>) -> wasmtime::Result<PromptVerdict> {
        let export = export(live, HookPoint::BeforePrompt)?;
        let (verdict,) = live.call::<_, (PromptVerdict,)>(&export, (&self.context, self.prompt.as_str())).await?;
        live.state().spend_output(match &verdict {
            PromptVerdict::Proceed => 0,
            PromptVerdict::Warn(text) | PromptVerdict::Reject(text) | PromptVerdict::AddContext(text) => text.len(),
        })?;
        Ok(verdict)
    }
}

/// Asks for instructions for a summary.
pub(super) struct BeforeCompaction {
    pub(super) context: CallContext,
    pub(super) compaction: Compaction,
}

impl InstanceJob for BeforeCompaction {
    type Answer = Option<String>;

    async fn run(self, live: &mut Live<'_>) -> wasmtime::Result<Self::Answer> {
        let export = export(live, HookPoint::BeforeCompaction)?;
        let (text,) = live.call::<_, (Self::Answer,)>(&export, (&self.context, &self.compaction)).await?;
        live.state().spend_output(text.as_ref().map_or(0, String::len))?;
        Ok(text)
    }
}

/// Delivers events of the session.
pub(super) struct OnEvents {
    pub(super) events: Vec<Arc<str>>,
}

impl InstanceJob for OnEvents {
    type Answer = ();

    async fn run(self, live: &mut Live<'_>) -> wasmtime::Result<()> {
        let export = export(live, HookPoint::SessionEvents)?;
        live.call::<_, ()>(&export, (self.events.as_slice(),)).await
    }
}

fn export(live: &Live<'_>, point: HookPoint) -> Result<ExportedFunction, GuestError> {
    live.exported().hooks.at(point).ok_or(GuestError::NotExported(point.name()))
}
