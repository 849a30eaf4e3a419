//! The questions of the host as views, and the effects of their answers.

use crate::dialog::approval::Approval;
use crate::dialog::approval_question::ApprovalAnswer;
use crate::dialog::plugin::{DialogReply, PluginDialog};
use crate::dialog::screen_view::{ReadingKeys, ScreenView, ViewFrame, ViewLayer, ViewOutcome, ViewRows};
use crate::input::UiRequest;
use crate::keys::Action;
use crate::update::App;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use pinion_protocol::DialogError;
use std::time::Duration;

impl ScreenView<App> for Approval {
    fn layer(&self) -> ViewLayer {
        ViewLayer::Question
    }

    fn draw_rows(&mut self, frame: ViewFrame<'_>) -> ViewRows {
        self.draw(frame.columns, frame.height, frame.theme, frame.now)
    }

    fn take_key(&mut self, key: KeyEvent, action: Option<Action>, now: Duration) -> ViewOutcome<App> {
        let answer = self.key(key, action, now);
        answered(self.id(), answer, action)
    }

    fn take_paste(&mut self, text: &str, now: Duration) -> ViewOutcome<App> {
        self.paste(text, now);
        ViewOutcome::Taken
    }

    fn take_tick(&mut self, now: Duration) -> ViewOutcome<App> {
        let answer = self.tick(now);
        answered(self.id(), answer, None)
    }

    fn deadline(&self) -> Option<Duration> {
        self.deadline()
    }

    fn is_new(&self) -> bool {
        self.is_new()
    }

    fn question_id(&self) -> Option<u64> {
        Some(self.id())
    }

    fn announcement(&self) -> Option<&'static str> {
        Some("a tool call waits for your approval")
    }

    fn reading_keys(&self) -> ReadingKeys {
        ReadingKeys::WithModifier
    }
}

impl ScreenView<App> for PluginDialog {
    fn layer(&self) -> ViewLayer {
        ViewLayer::Dialog
    }

    fn draw_rows(&mut self, frame: ViewFrame<'_>) -> ViewRows {
        self.draw(frame.columns, frame.height, frame.theme, frame.now)
    }

    fn take_key(&mut self, key: KeyEvent, action: Option<Action>, now: Duration) -> ViewOutcome<App> {
        if key.modifiers != KeyModifiers::CONTROL || key.code != KeyCode::Char('c') {
            let reply = self.key(key, action, now);
            return replied(self.id(), reply);
        }
        let request = UiRequest::Reply(self.id(), Err(DialogError::Dismissed));
        ViewOutcome::effect(move |app: &mut App, now| {
            app.interrupt_at_question(action, now);
            app.close_with(ViewLayer::Dialog, request);
        })
    }

    fn take_paste(&mut self, text: &str, now: Duration) -> ViewOutcome<App> {
        self.paste(text, now);
        ViewOutcome::Taken
    }

    fn take_tick(&mut self, now: Duration) -> ViewOutcome<App> {
        let reply = self.tick(now);
        replied(self.id(), reply)
    }

    fn deadline(&self) -> Option<Duration> {
        self.deadline()
    }

    fn is_new(&self) -> bool {
        self.is_new()
    }

    fn question_id(&self) -> Option<u64> {
        Some(self.id())
    }

    fn announcement(&self) -> Option<&'static str> {
        Some("a plugin asks you")
    }

    fn reading_keys(&self) -> ReadingKeys {
        ReadingKeys::WithModifier
    }
}

impl App {
    /// Closes the view in a layer with a request to the host.
    pub(crate) fn close_with(&mut self, layer: ViewLayer, request: UiRequest) {
        self.views.close(layer);
        self.requests.push(request);
    }

    /// Interrupts the work because of a key that a question was shown for. Another one quits if it cancels.
    pub(crate) fn interrupt_at_question(&mut self, action: Option<Action>, now: Duration) {
        self.quitting = (action == Some(Action::Cancel)).then_some(now);
        self.requests.push(UiRequest::Interrupt);
    }
}

/// Returns the outcome of an answer to the question with this number.
fn answered(id: u64, answer: Option<ApprovalAnswer>, action: Option<Action>) -> ViewOutcome<App> {
    let Some(answer) = answer else { return ViewOutcome::Taken };
    ViewOutcome::effect(move |app: &mut App, now| {
        if answer == ApprovalAnswer::Interrupt {
            app.interrupt_at_question(action, now);
        }
        app.close_with(ViewLayer::Question, UiRequest::Answer(id, answer));
    })
}

/// Returns the outcome of a reply to the dialog with this number.
fn replied(id: u64, reply: Option<DialogReply>) -> ViewOutcome<App> {
    let Some(reply) = reply else { return ViewOutcome::Taken };
    ViewOutcome::effect(move |app: &mut App, _| app.close_with(ViewLayer::Dialog, UiRequest::Reply(id, reply)))
}
