//! Plan mode: messages ask for a plan, which the user edits, approves and has executed.

use crate::commands::is_message;
use crate::dialog::picker::{Pick, PickChoice, Picker};
use crate::input::{Facts, UiRequest};
use crate::keys::Action;
use crate::transcript::{PlanPage, Tone, TranscriptItem};
use crate::update::App;
use std::time::Duration;

/// State of plan mode.
#[derive(Debug, Default)]
pub(crate) struct Planning {
    /// Messages ask for a plan.
    pub(crate) is_on: bool,
    /// The agent writes a plan.
    pub(super) is_writing: bool,
    /// File of the plan that is on the screen.
    pub(super) file: Option<String>,
    /// Its text, with the user's edits.
    pub(super) text: String,
    /// The reason why the file has another text.
    pub(super) unsaved: Option<String>,
    /// The next plan replaces the one on the screen.
    pub(super) is_revised: bool,
    /// The external editor has the plan.
    pub(super) is_edited: bool,
}

/// Values of the choices below a plan.
const EXECUTE: &str = "execute";
const EDIT: &str = "edit";
const REVISE: &str = "revise";
pub(super) const KEEP: &str = "keep";
/// The mode that makes messages ask for a plan.
const PLAN: &str = "plan";
/// The modes that a key reaches one after another, with their meanings.
const MODES: [(&str, &str); 4] = [
    ("ask", "every call is asked about"),
    ("smart", "calls that leave the sandbox are asked about"),
    ("edits", "files of the project are edited, and programs are asked about"),
    (PLAN, "the agent only reads, and writes a plan for your message"),
];
/// The modes that the key reaches only if they were in effect before.
const CHOSEN_MODES: [(&str, &str); 2] =
    [("confirm", "edits and programs are asked about"), ("all", "nothing is asked about")];

/// Presses of the key of the modes without another key in between. Modes that they only pass are never in effect for the
/// user, so plan mode is left for the mode before the first press.
#[derive(Debug, Default)]
pub(super) struct ModeCycle {
    /// The mode before the first press.
    start: Option<String>,
    /// Plan mode was left by the last press, so that the next one continues behind it.
    has_left_plan: bool,
}

impl App {
    /// Switches to the next mode. Plan mode is left for the mode that was in effect before.
    pub(super) fn next_mode(&mut self, now: Duration) {
        let current = self.mode_before.as_ref().unwrap_or(&self.status.facts.approval).clone();
        let start = self.mode_cycle.start.get_or_insert_with(|| current.clone()).clone();
        let has_left_plan = std::mem::take(&mut self.mode_cycle.has_left_plan);
        if self.planning.is_on {
            self.leave_plan_mode();
            self.mode_cycle.has_left_plan = true;
            return self.switch_mode(&start, now);
        }
        let chosen = CHOSEN_MODES.into_iter().filter(|(name, _)| self.chosen_modes.iter().any(|mode| mode == name));
        let modes: Vec<(&str, &str)> = MODES.into_iter().chain(chosen).collect();
        let at = |wanted: &str| modes.iter().position(|(name, _)| *name == wanted);
        let from = if has_left_plan { PLAN } else { current.as_str() };
        // After a mode that is not among them, the one that can do least.
        let mut next = at(from).map(|at| (at + 1) % modes.len()).or_else(|| at(PLAN)).unwrap_or_default();
        if modes[next].0 == current {
            next = (next + 1) % modes.len();
        }
        if modes[next].0 != PLAN {
            return self.switch_mode(modes[next].0, now);
        }
        if self.status.is_busy() {
            self.mode_before.get_or_insert(start);
        } else if start != self.status.facts.approval {
            self.use_mode(start);
        }
        self.set_plan_mode(true, now);
    }

    fn switch_mode(&mut self, name: &str, now: Duration) {
        let known = MODES.iter().chain(&CHOSEN_MODES).find(|(known, _)| *known == name);
        self.leave_plan_mode();
        self.use_mode(name.to_owned());
        self.hint(known.map_or_else(|| name.to_owned(), |(_, meaning)| format!("{name}: {meaning}")), now);
    }

    fn use_mode(&mut self, name: String) {
        self.status.facts.approval.clone_from(&name);
        self.requests.push(UiRequest::Mode(name));
    }

    /// Forgets plan mode, because another one takes its place.
    pub(super) fn leave_plan_mode(&mut self) {
        (self.planning, self.mode_before) = (Planning::default(), None);
    }

    /// Returns to the mode that plan mode replaced in the middle of a run.
    pub(super) fn release_mode(&mut self) {
        if let Some(before) = self.mode_before.take() {
            self.use_mode(before);
        }
    }

    /// Takes over the current facts of the conversation.
    pub(super) fn take_facts(&mut self, facts: Facts) {
        if !self.chosen_modes.contains(&facts.approval) && CHOSEN_MODES.iter().any(|(name, _)| *name == facts.approval)
        {
            self.chosen_modes.push(facts.approval.clone());
        }
        // Each model has a separate cache.
        self.status.cached_at.take_if(|_| facts.model != self.status.facts.model);
        self.status.facts = facts;
    }

    /// Turns plan mode on or off.
    pub(super) fn toggle_plan_mode(&mut self, now: Duration) {
        self.set_plan_mode(!self.planning.is_on, now);
    }

    /// Turns plan mode on or off. In the middle of a run, its next calls are bound to the mode, too: the others apply to
    /// messages that follow.
    fn set_plan_mode(&mut self, is_on: bool, now: Duration) {
        self.planning = Planning { is_on, is_writing: self.planning.is_writing, ..Planning::default() };
        if !is_on {
            self.release_mode();
            return self.hint("plan mode is off", now);
        }
        if !self.status.is_busy() {
            return self.hint("plan mode: the agent only reads, and writes a plan for your message", now);
        }
        self.mode_before.get_or_insert_with(|| self.status.facts.approval.clone());
        self.use_mode(PLAN.to_owned());
        self.hint("plan mode: from its next call on, the agent only reads", now);
    }

    /// Returns the request for a text of the user: in plan mode, a message asks for a plan.
    pub(super) fn request_for(&mut self, text: String) -> UiRequest {
        if !self.planning.is_on || !is_message(&text) {
            return UiRequest::Submit(text);
        }
        let file = self.planning.file.take().filter(|_| self.planning.is_revised);
        self.planning.is_writing = true;
        UiRequest::Plan { text, file }
    }

    /// Returns whether the list below a plan is on the screen.
    pub(super) fn is_deciding(&self) -> bool {
        self.views.get::<Picker>().is_some_and(|picker| picker.pick == Pick::Plan)
    }

    /// Shows a plan from its beginning and asks how to continue.
    pub(super) fn plan(&mut self, file: String, text: String, now: Duration) {
        self.transcript.push(TranscriptItem::Plan(PlanPage { file: file.clone(), text: text.clone() }));
        if self.settings.is_inline {
            self.end_view();
            self.transcript.follow();
        } else {
            self.transcript.show_last();
        }
        self.planning = Planning { file: Some(file), text, is_on: self.planning.is_on, ..Planning::default() };
        self.views.open(self.ways().appears_at(now));
    }

    /// Lists the ways to continue with the plan.
    fn ways(&self) -> Picker {
        let choice = |value: &str, label: &str, detail: &str| PickChoice {
            value: value.to_owned(),
            label: label.to_owned(),
            detail: detail.to_owned(),
        };
        let choices = vec![
            choice(EXECUTE, "execute the plan", "in a new session, step by step"),
            choice(EDIT, "edit the plan", "in your editor"),
            choice(REVISE, "ask for changes", "write what to change"),
            choice(KEEP, "keep it for later", self.planning.file.as_deref().unwrap_or_default()),
        ];
        Picker::new(Pick::Plan, choices)
    }

    /// Lists the ways to continue after one of them failed for this reason. Another edit is selected.
    fn ways_after(&self, reason: String) -> Picker {
        let mut picker = self.ways();
        picker.mark(EDIT, if self.planning.unsaved.is_some() { "not saved yet" } else { "again" });
        picker.set_notice(reason);
        picker
    }

    pub(super) fn decide_on_plan(&mut self, value: &str, now: Duration) {
        let Some(file) = self.planning.file.clone() else { return };
        if let Some(reason) = self.planning.unsaved.clone().filter(|_| value == EXECUTE) {
            self.views.open(self.ways_after(reason));
            return;
        }
        match value {
            EXECUTE if self.status.is_busy() => self.hint("wait for the agent, or interrupt it", now),
            EXECUTE => {
                self.planning = Planning::default();
                self.end_view();
                self.transcript.follow();
                self.status.begin(now);
                self.requests.push(UiRequest::Execute(file));
            }
            EDIT => {
                self.planning.is_edited = true;
                self.requests.push(UiRequest::Edit(self.planning.text.clone()));
            }
            REVISE => {
                (self.planning.is_on, self.planning.is_revised) = (true, true);
                let hint = "write what to change; the next plan replaces this one".to_owned();
                let hint = self.kept_edit().unwrap_or(hint);
                self.hint(hint, now);
            }
            _ => {
                let hint = self.kept_edit().unwrap_or_else(|| format!("`/execute {file}` executes the plan"));
                self.hint(hint, now);
                self.submit_next(now);
            }
        }
    }

    /// Keeps an edit that no file has for a yank, because the list is left. Returns a hint at it.
    fn kept_edit(&mut self) -> Option<String> {
        self.planning.unsaved.take()?;
        self.composer.keep(&self.planning.text);
        Some(self.settings.keys.says(Action::Yank, "your edit is not saved; ", "brings it back"))
    }

    /// Takes a plan back from the external editor, and asks again how to continue if that failed. Returns `false` if it edited
    /// something else.
    pub(super) fn plan_edited(&mut self, edited: &Result<String, String>, now: Duration) -> bool {
        if !std::mem::take(&mut self.planning.is_edited) {
            return false;
        }
        match (edited, self.planning.file.clone()) {
            (Ok(text), Some(file)) => {
                self.planning.text.clone_from(text);
                self.requests.push(UiRequest::SavePlan { file, text: text.clone() });
            }
            (Err(problem), Some(_)) => self.views.open(self.ways_after(problem.clone()).appears_at(now)),
            (_, None) => {}
        }
        true
    }

    /// Asks again how to continue with a plan that could not be saved. It cannot be executed before it is.
    pub(super) fn plan_unsaved(&mut self, reason: String, now: Duration) {
        if self.planning.file.is_none() {
            return self.transcript.note(Tone::Error, reason);
        }
        self.planning.unsaved = Some(reason.clone());
        self.views.open(self.ways_after(reason).appears_at(now));
    }

    /// Plans a task, or toggles plan mode without one.
    pub(super) fn plan_command(&mut self, task: &str, now: Duration) {
        if task.is_empty() {
            return self.toggle_plan_mode(now);
        }
        let is_on = std::mem::replace(&mut self.planning.is_on, true);
        match self.status.is_busy() {
            true => self.hint("wait for the agent, or interrupt it", now),
            false => self.submit(task.to_owned(), now),
        }
        self.planning.is_on = is_on;
    }

    /// Opens a plan in the external editor.
    pub(super) fn edit_plan_command(&mut self, file: &str, now: Duration) {
        match self.status.is_busy() {
            // Its steps get their statuses in the file meanwhile.
            true => self.hint("wait for the agent, or interrupt it", now),
            false => self.requests.push(UiRequest::OpenPlan(Some(file.to_owned()).filter(|file| !file.is_empty()))),
        }
    }

    /// Edits a plan that was opened.
    pub(super) fn opened_plan(&mut self, file: String, text: String) {
        let is_on = self.planning.is_on;
        self.planning =
            Planning { file: Some(file), text: text.clone(), is_edited: true, is_on, ..Planning::default() };
        self.requests.push(UiRequest::Edit(text));
    }

    /// Returns the label of plan mode, or of a plan that is written.
    pub(crate) fn planning_label(&self) -> Option<&'static str> {
        match (self.planning.is_writing && self.status.is_busy(), self.planning.is_on) {
            (true, _) => Some("planning"),
            (false, true) => Some("plan mode"),
            (false, false) => None,
        }
    }

    /// Executes a plan.
    pub(super) fn execute_command(&mut self, file: &str, now: Duration) {
        match file {
            "" => self.hint("`/execute` takes the file of a plan, such as .pinion/plans/NAME.md", now),
            _ if self.status.is_busy() => self.hint("wait for the agent, or interrupt it", now),
            _ => {
                self.planning = Planning::default();
                self.status.begin(now);
                self.requests.push(UiRequest::Execute(file.to_owned()));
            }
        }
    }
}
