//! The hooks of the package `pinion:hooks`: before a run stops, at the start and end of a session, and after a reply.

use super::MAX_CONTEXT_BYTES;
use super::round::{HookRound, Occasion};
use super::words::{bounded, quoted};
use crate::bindings::hooks::exports::pinion::hooks::before_stop::{Stop, StopVerdict};
use crate::bindings::hooks::exports::pinion::hooks::session_start::SessionInfo;
use crate::bindings::hooks::pinion::hooks::types::HookContext;
use crate::bindings::pinion::plugin::types::CallContext;
use crate::calls::instance::{InstanceJob, Live};
use crate::loading::instance_template::ExportedFunction;
use crate::runtime::Runtime;
use pinion_plugin_limits::{FaultKind, GuestError, HOOK_MS};
use pinion_protocol::hook::{CheckedStop, HookedRun, RevisedReply, StartedSession, StoppingRun};
use pinion_protocol::{HookAnswer, HookPoint};
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Sessions whose start was announced; the oldest are forgotten.
const MAX_SESSIONS: usize = 1_000;
/// Time that all plugins together have at the end of sessions.
const MAX_END: Duration = Duration::from_millis(HOOK_MS);

/// The sessions whose start was announced to plugins.
#[derive(Default)]
pub(crate) struct StartedSessions(Mutex<VecDeque<String>>);

impl StartedSessions {
    /// Adds a session. Returns whether it is new here.
    fn add(&self, session_id: &str) -> bool {
        let mut sessions = self.lock();
        if sessions.iter().any(|known| known == session_id) {
            return false;
        }
        if sessions.len() == MAX_SESSIONS {
            sessions.pop_front();
        }
        sessions.push_back(session_id.to_owned());
        true
    }

    fn take_all(&self) -> VecDeque<String> {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Runtime {
    pub(super) async fn check_stop(&self, stop: StoppingRun<'_>, token: &CancellationToken) -> CheckedStop {
        let mut round = HookRound::new(self, occasion(HookPoint::BeforeStop, stop.run, token));
        let mut reasons = Vec::new();
        let job = |context| BeforeStop {
            context: hook_context(context, stop.run),
            stop: Stop {
                reply: stop.reply.to_owned(),
                turns: stop.turns,
                continuations: stop.continuations,
                extra: None,
            },
        };
        while let Some((plugin, answer)) = round.ask_next(job).await {
            match answer {
                Ok(StopVerdict::Proceed | StopVerdict::Other(_)) => round.record(HookAnswer::Proceeded, ""),
                Ok(StopVerdict::ContinueWith(text)) => {
                    let title = format!("[From plugin `{plugin}`, not from the user] Continue, because:");
                    reasons.push(quoted(&title, &text, MAX_CONTEXT_BYTES));
                    round.record(HookAnswer::Continued, &bounded(&text));
                }
                Err(problem) => round.record(HookAnswer::Failed, &problem),
            }
        }
        CheckedStop { reasons, calls: round.calls }
    }

    pub(super) async fn start_session(
        &self,
        run: HookedRun<'_>,
        is_new: bool,
        token: &CancellationToken,
    ) -> StartedSession {
        if !self.sessions.add(run.session_id) {
            return StartedSession::default();
        }
        let mut round = HookRound::new(self, occasion(HookPoint::SessionStart, run, token));
        let mut added = Vec::new();
        let job = |context| OnSessionStart {
            context: hook_context(context, run),
            session: SessionInfo { is_new, extra: None },
        };
        while let Some((plugin, answer)) = round.ask_next(job).await {
            match answer {
                Ok(None) => round.record(HookAnswer::Proceeded, ""),
                Ok(Some(text)) => {
                    let title = format!("\n[Context from plugin `{plugin}`, not from the user]");
                    added.push(quoted(&title, &text, MAX_CONTEXT_BYTES));
                    round.record(HookAnswer::Added, "");
                }
                Err(problem) => round.record(HookAnswer::Failed, &problem),
            }
        }
        StartedSession { context: added, calls: round.calls }
    }

    /// Calls the hooks at the end of each session that was announced, for at most as long as one hook may take.
    pub(super) async fn end_sessions(&self) {
        let (token, sessions) = (CancellationToken::new(), self.sessions.take_all());
        let ending = async {
            for session_id in &sessions {
                let run = HookedRun { session_id, run_id: "", depth: 0 };
                let mut round = HookRound::new(self, occasion(HookPoint::SessionEnd, run, &token));
                let job = |context| OnSessionEnd { context: hook_context(context, run) };
                while let Some((plugin, answer)) = round.ask_next(job).await {
                    if let Err(problem) = answer {
                        tracing::warn!(plugin, problem, "the plugin failed at the end of a session");
                    }
                }
            }
        };
        if tokio::time::timeout(MAX_END, ending).await.is_err() {
            token.cancel();
            tracing::warn!("plugins took more than {} s at the end of a session", MAX_END.as_secs());
        }
    }

    pub(super) async fn revise_reply(
        &self,
        run: HookedRun<'_>,
        mut texts: Vec<String>,
        token: &CancellationToken,
    ) -> RevisedReply {
        let mut round = HookRound::new(self, occasion(HookPoint::AfterReply, run, token));
        let mut is_revised = false;
        loop {
            let job = |context| AfterReply { context: hook_context(context, run), texts: texts.clone() };
            let Some((plugin, answer)) = round.ask_next(job).await else { break };
            match answer {
                Ok(None) => round.record(HookAnswer::Proceeded, ""),
                Ok(Some(revised)) if revised.len() == texts.len() => {
                    is_revised |= revised != texts;
                    texts = revised;
                    round.record(HookAnswer::Revised, "");
                }
                Ok(Some(revised)) => {
                    let message = format!("it returned {} texts for {}", revised.len(), texts.len());
                    let fault = FaultKind::Contract { message }.for_plugin(&plugin);
                    round.record(HookAnswer::Failed, &bounded(&fault.to_string()));
                }
                Err(problem) => round.record(HookAnswer::Failed, &problem),
            }
        }
        RevisedReply { texts: is_revised.then_some(texts), calls: round.calls }
    }
}

fn occasion<'a>(point: HookPoint, run: HookedRun<'a>, token: &'a CancellationToken) -> Occasion<'a> {
    Occasion { point, call_id: "", session_id: run.session_id, token }
}

fn hook_context(context: CallContext, run: HookedRun<'_>) -> HookContext {
    HookContext {
        session_id: context.session_id,
        run_id: run.run_id.to_owned(),
        workspace: context.workspace,
        agent_depth: run.depth,
        deadline_ms: context.deadline_ms,
        extra: None,
    }
}

/// Asks whether a run may stop.
struct BeforeStop {
    context: HookContext,
    stop: Stop,
}

impl InstanceJob for BeforeStop {
    type Answer = StopVerdict;

    async fn run(self, live: &mut Live<'_>) -> wasmtime::Result<StopVerdict> {
        let export = export(live, HookPoint::BeforeStop)?;
        let (verdict,) = live.call::<_, (StopVerdict,)>(&export, (&self.context, &self.stop)).await?;
        live.state().spend_output(match &verdict {
            StopVerdict::Proceed => 0,
            StopVerdict::ContinueWith(text) | StopVerdict::Other(text) => text.len(),
        })?;
        Ok(verdict)
    }
}

/// Announces the start of a session.
struct OnSessionStart {
    context: HookContext,
    session: SessionInfo,
}

impl InstanceJob for OnSessionStart {
    type Answer = Option<String>;

    async fn run(self, live: &mut Live<'_>) -> wasmtime::Result<Self::Answer> {
        let export = export(live, HookPoint::SessionStart)?;
        let (text,) = live.call::<_, (Self::Answer,)>(&export, (&self.context, &self.session)).await?;
        live.state().spend_output(text.as_ref().map_or(0, String::len))?;
        Ok(text)
    }
}

/// Announces the end of a session.
struct OnSessionEnd {
    context: HookContext,
}

impl InstanceJob for OnSessionEnd {
    type Answer = ();

    async fn run(self, live: &mut Live<'_>) -> wasmtime::Result<()> {
        let export = export(live, HookPoint::SessionEnd)?;
        live.call::<_, ()>(&export, (&self.context,)).await
    }
}

/// Lets a hook revise the texts of a reply.
struct AfterReply {
    context: HookContext,
    texts: Vec<String>,
}

impl InstanceJob for AfterReply {
    type Answer = Option<Vec<String>>;

    async fn run(self, live: &mut Live<'_>) -> wasmtime::Result<Self::Answer> {
        let export = export(live, HookPoint::AfterReply)?;
        let (texts,) = live.call::<_, (Self::Answer,)>(&export, (&self.context, self.texts.as_slice())).await?;
        live.state().spend_output(texts.iter().flatten().map(String::len).sum())?;
        Ok(texts)
    }
}

fn export(live: &Live<'_>, point: HookPoint) -> Result<ExportedFunction, GuestError> {
    live.exported().hooks.at(point).ok_or(GuestError::NotExported(point.name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_is_announced_once_and_the_oldest_are_forgotten() {
        let sessions = StartedSessions::default();
        assert!(sessions.add("a") && !sessions.add("a") && sessions.add("b"));
        (0..MAX_SESSIONS).for_each(|number| assert!(sessions.add(&number.to_string())));
        assert_eq!(sessions.take_all().len(), MAX_SESSIONS);
        assert!(sessions.add("a"));
    }
}
