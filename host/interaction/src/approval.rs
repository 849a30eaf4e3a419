//! Decides whether a call may run, by the authority that the executor enforces, never by the claims of the tool.

use crate::question_time::QuestionTime;
use pinion_protocol::approval::{
    ApprovalMode, Approver, CallRules, Decider, Decision, DeniedCall, NoRules, Question, Ruling,
};
use pinion_protocol::authority::Authority;
use pinion_protocol::definition::{ToolDefinition, ToolSource};
use pinion_protocol::dialog::{Dialog, DialogAnswer, DialogError, NoUser, UserInterface};
use pinion_protocol::guard::{caught, caught_async};
use pinion_protocol::hook::HookNote;
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::MutexGuard;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Maximum number of recorded denials; later ones are only counted.
const MAX_DENIED: usize = 256;
/// Notices that a plugin may show in [`NOTICE_TIME`]; later ones are dropped.
const MAX_NOTICES: u32 = 60;
const NOTICE_TIME: Duration = Duration::from_secs(60);

/// The rules, the approval mode, and the decisions of this session. Clones share them: sub-agents and branches belong to the
/// session that started them.
#[derive(Clone)]
pub struct Approval {
    mode: Arc<Mutex<ApprovalMode>>,
    rules: Arc<dyn CallRules>,
    approver: Arc<dyn Approver>,
    user: Arc<dyn UserInterface>,
    decided: Arc<Mutex<Decided>>,
    question_time: Arc<QuestionTime>,
    turn: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Default)]
struct Decided {
    allowed: HashSet<ApprovalSubject>,
    denied: Vec<DeniedCall>,
    denied_count: u64,
    /// Plugins whose dialogs the user does not want.
    muted: HashSet<String>,
    /// The number of notices of each plugin since a time.
    notices: HashMap<String, (Instant, u32)>,
}

/// The next step of a decision.
#[derive(Debug, PartialEq, Eq)]
pub enum Need {
    /// The call may run.
    Nothing(Decider),
    /// The user has to decide.
    Answer,
    /// The call may not run, for this reason.
    Denied(String, Decider),
}

/// The subject of an "always": one definition of one tool of one version of a plugin, and the targets that its call
/// reaches.
#[derive(PartialEq, Eq, Hash)]
struct ApprovalSubject {
    plugin: Arc<str>,
    digest: Arc<str>,
    definition: Arc<str>,
    tool: String,
    authority: Authority,
    /// The values of the arguments that name the call's targets, and the rules' own facts about them.
    reach: Vec<Option<String>>,
}

impl ApprovalSubject {
    fn from_question(question: &Question<'_>, rules: &dyn CallRules) -> Self {
        let Question { call, tool, .. } = question;
        let ToolSource { plugin, digest, definition, approved_by, .. } = tool.source.clone();
        let arguments = approved_by.iter().map(|name| call.arguments.get(&**name).map(Value::to_string));
        let reach = arguments.chain([caught(|| rules.reach(question)).unwrap_or_default()]).collect();
        Self { plugin, digest, definition, tool: tool.name.clone(), authority: tool.authority, reach }
    }
}

impl Approval {
    /// Creates an approval that asks `approver` about the calls that `mode` selects.
    pub fn new(mode: ApprovalMode, approver: Arc<dyn Approver>) -> Self {
        let (decided, question_time, turn) = (Arc::default(), Arc::default(), Arc::default());
        let (mode, rules) = (Arc::new(Mutex::new(mode)), Arc::new(NoRules));
        Self { mode, rules, approver, user: Arc::new(NoUser), decided, question_time, turn }
    }

    /// Sets the rules that come before the mode; no rules by default.
    #[must_use]
    pub fn with_rules(self, rules: Arc<dyn CallRules>) -> Self {
        Self { rules, ..self }
    }

    /// Returns the mode.
    pub fn mode(&self) -> ApprovalMode {
        *self.mode.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the mode of all clones, from the next decision on.
    pub fn set_mode(&self, mode: ApprovalMode) {
        *self.mode.lock().unwrap_or_else(PoisonError::into_inner) = mode;
    }

    /// Sets who answers the dialogs of plugins; by default, dialogs get no answer.
    #[must_use]
    pub fn with_user(self, user: Arc<dyn UserInterface>) -> Self {
        Self { user, ..self }
    }

    /// Clears the approvals of the session, because another session starts.
    pub fn forget(&self) {
        let mut decided = self.decided();
        decided.allowed.clear();
        decided.denied.clear();
        decided.muted.clear();
    }

    /// Returns the denied calls of this session in order; at most 256.
    pub fn denied(&self) -> Vec<DeniedCall> {
        self.decided().denied.clone()
    }

    /// Returns the number of denied calls since creation.
    pub fn denied_count(&self) -> u64 {
        self.decided().denied_count
    }

    /// Returns the calls denied after the first `count`, at least the last recorded one; `None` if no call was denied
    /// since.
    pub fn denied_since(&self, count: u64) -> Option<Vec<DeniedCall>> {
        let decided = self.decided();
        let since = usize::try_from(decided.denied_count - count).unwrap_or(usize::MAX).min(MAX_DENIED);
        let first = decided.denied.len().saturating_sub(since);
        (since > 0).then(|| decided.denied[first..].to_vec())
    }

    /// Sleeps for `time`, not counting the time during which a person is asked.
    pub async fn sleep(&self, time: Duration) {
        self.question_time.sleep(time).await;
    }

    /// Returns the [`Need`] of a call before it may run. Hooks of plugins can force a question, and cannot prevent a
    /// denial.
    pub fn need(&self, question: &Question<'_>) -> Need {
        let (mode, authority) = (self.mode(), question.tool.authority);
        // Rules that fail allow nothing.
        let ruling = caught(|| self.rules.ruling(mode, question)).unwrap_or(Ruling::Ask);
        let by = match ruling {
            Ruling::Deny { reason } => return Need::Denied(reason, Decider::Rules),
            Ruling::Ask => return Need::Answer,
            Ruling::Mode if mode.denies(authority) => {
                let reason = "the user's approval mode is `plan`, in which calls can only read".to_owned();
                return Need::Denied(reason, Decider::Mode);
            }
            Ruling::Allow => Decider::Rules,
            Ruling::Mode if !mode.asks(authority) => Decider::Mode,
            Ruling::Mode
                if self.decided().allowed.contains(&ApprovalSubject::from_question(question, &*self.rules)) =>
            {
                Decider::Session
            }
            Ruling::Mode => return Need::Answer,
        };
        if question.notes.iter().any(HookNote::asks) { Need::Answer } else { Need::Nothing(by) }
    }

    /// Reports a decision to the rules, and records a denial that is not an answer.
    pub fn conclude(&self, question: &Question<'_>, is_allowed: bool, by: Decider) {
        let reported = caught(|| self.rules.decided(self.mode(), question, is_allowed, by));
        if let Err(panicked) = reported {
            tracing::error!(%panicked, "the log of decisions failed");
        }
    }

    /// Records a denial by a rule or by the mode.
    pub fn refuse(&self, question: &Question<'_>, reason: &str, by: Decider) {
        self.record(question.tool, reason, false);
        self.conclude(question, false, by);
    }

    /// Waits until all other questions of the session are closed, in the order of the calls of this method.
    pub async fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().await
    }

    /// Asks about a call and records the answer; `None` if `token` was cancelled first.
    pub async fn ask(
        &self,
        question: Question<'_>,
        token: &CancellationToken,
        _turn: &MutexGuard<'_, ()>,
    ) -> Option<Decision> {
        let question_time = self.question_time.begin();
        let decision = caught_async(async { self.approver.decide(question, token).await });
        let decision = token.run_until_cancelled(decision).await?;
        drop(question_time);
        let decision = decision.unwrap_or_else(|panicked| {
            tracing::error!(%panicked, "the approver failed");
            Decision::Unanswered { reason: format!("the approver {panicked}") }
        });
        let is_allowed = matches!(decision, Decision::Allow | Decision::AllowForSession);
        let is_answered = !matches!(decision, Decision::Unanswered { .. });
        self.conclude(&question, is_allowed, if is_answered { Decider::User } else { Decider::Nobody });
        match &decision {
            Decision::Allow => {}
            Decision::AllowForSession => {
                self.decided().allowed.insert(ApprovalSubject::from_question(&question, &*self.rules));
            }
            Decision::Deny { reason } => self.record(question.tool, reason, false),
            Decision::Unanswered { reason } => self.record(question.tool, reason, true),
        }
        Some(decision)
    }

    /// Asks the user for a plugin, once all other questions of the session are closed.
    ///
    /// # Errors
    /// There is no answer.
    pub async fn dialog(&self, dialog: &Dialog, token: &CancellationToken) -> Result<DialogAnswer, DialogError> {
        // Cancelled when the answer is not awaited any more.
        let token = token.child_token();
        let _closed = token.clone().drop_guard();
        let turn = token.run_until_cancelled(self.turn()).await;
        let _turn = turn.ok_or(DialogError::Cancelled)?;
        if self.decided().muted.contains(&dialog.plugin) {
            return Err(DialogError::Dismissed);
        }
        let _question_time = self.question_time.begin();
        let answer = caught_async(async { self.user.ask(dialog, &token).await });
        let answer = token.run_until_cancelled(answer).await.ok_or(DialogError::Cancelled)?;
        match answer {
            Ok(Err(DialogError::Muted)) => {
                self.decided().muted.insert(dialog.plugin.clone());
                Err(DialogError::Dismissed)
            }
            Ok(answer) => answer,
            Err(panicked) => {
                tracing::error!(%panicked, "the user interface failed");
                Err(DialogError::Headless)
            }
        }
    }

    /// Counts a notice of a plugin. Returns whether it may be shown.
    pub fn may_notify(&self, plugin: &str) -> bool {
        let (now, mut decided) = (Instant::now(), self.decided());
        let (since, count) = decided.notices.entry(plugin.to_owned()).or_insert((now, 0));
        if now.duration_since(*since) >= NOTICE_TIME {
            (*since, *count) = (now, 0);
        }
        *count = count.saturating_add(1);
        *count <= MAX_NOTICES
    }

    /// Returns who answers the dialogs of plugins.
    pub fn user(&self) -> &dyn UserInterface {
        &*self.user
    }

    fn record(&self, tool: &ToolDefinition, reason: &str, is_unanswered: bool) {
        let denied = DeniedCall { tool: tool.name.clone(), reason: reason.to_owned(), is_unanswered };
        let mut decided = self.decided();
        decided.denied_count += 1;
        if decided.denied.len() < MAX_DENIED {
            decided.denied.push(denied);
        }
    }

    /// Locks the decisions. A panic leaves them consistent, so poisoning is ignored.
    fn decided(&self) -> std::sync::MutexGuard<'_, Decided> {
        self.decided.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
