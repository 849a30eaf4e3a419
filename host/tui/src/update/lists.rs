//! Lists from which the user picks, and the effects of a choice.

use crate::dialog::picker::{Choice, Pick, Picked, Picker};
use crate::input::Request;
use crate::update::App;
use std::time::Duration;

impl App {
    pub(super) fn offer(&mut self, pick: Pick, choices: Vec<Choice>, now: Duration) {
        match choices.is_empty() {
            true => self.hint("nothing to choose from", now),
            false => self.picker = Some(Picker::new(pick, choices)),
        }
    }

    pub(super) fn history(&mut self, now: Duration) {
        let choice = |text: &str| Choice { value: text.to_owned(), label: text.to_owned(), detail: String::new() };
        let choices = self.composer.past().map(choice).collect();
        self.offer(Pick::History, choices, now);
    }

    pub(super) fn palette(&mut self, now: Duration) {
        let choices = self.commands.iter().map(|command| Choice {
            value: command.name.clone(),
            label: format!("/{} {}", command.name, command.hint).trim_end().to_owned(),
            detail: command.description.clone(),
        });
        let choices = choices.collect();
        self.offer(Pick::Palette, choices, now);
    }

    pub(super) fn picked(&mut self, picked: Picked, now: Duration) {
        let choice = match picked {
            Picked::Nothing => return,
            Picked::Closed => {
                self.picker = None;
                self.submit_next(now);
                return;
            }
            Picked::Choice(choice) => choice,
            Picked::Queued(number, change) => return self.change_queue(number, change, now),
            other => return self.session_picked(other, now),
        };
        match self.picker.take().map(|picker| picker.pick) {
            Some(Pick::Model) => self.submit(format!("/model {}", choice.value), now),
            Some(Pick::Session) if self.status.is_busy() => self.hint("wait for the agent, or interrupt it", now),
            Some(Pick::Session) => {
                self.status.begin(now);
                self.requests.push(Request::Resume(choice.value));
            }
            Some(Pick::Theme) => self.requests.push(Request::Theme(choice.value)),
            Some(Pick::Plan) => self.decide_on_plan(&choice.value, now),
            Some(Pick::Palette) => self.composer.set(&format!("/{} ", choice.value)),
            Some(Pick::History) => self.composer.set(&choice.value),
            Some(Pick::Queue) => choice.value.parse().into_iter().for_each(|number| self.edit_queued(number)),
            Some(Pick::Provider) | None => {}
        }
    }

    fn session_picked(&mut self, picked: Picked, now: Duration) {
        match picked {
            Picked::Delete(id) => self.requests.push(Request::DeleteSession(id)),
            Picked::Rename(id, name) => self.requests.push(Request::RenameSession { id, name }),
            Picked::Fork(_) if self.status.is_busy() => self.hint("wait for the agent, or interrupt it", now),
            Picked::Fork(id) => {
                self.picker = None;
                self.status.begin(now);
                self.requests.push(Request::Fork(id));
            }
            Picked::Nothing | Picked::Closed | Picked::Choice(_) | Picked::Queued(..) => {}
        }
    }

    /// Requests the preview that the list lacks, once.
    pub(super) fn watch_preview(&mut self) {
        let lacking = self.picker.as_ref().and_then(Picker::lacks_preview);
        if lacking != self.previewed.as_deref() {
            self.previewed = lacking.map(str::to_owned);
            self.requests.extend(self.previewed.clone().map(Request::Preview));
        }
    }
}
