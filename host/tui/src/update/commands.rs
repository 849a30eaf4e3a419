//! Slash commands that the UI carries out. They take effect at once, also while the agent works.

use crate::commands::{UiCommand, command_of};
use crate::dialog::picker::Pick;
use crate::input::UiRequest;
use crate::update::{ASKING, App};
use pinion_protocol::text::count;
use std::time::Duration;

impl App {
    /// Carries out a command that the UI has a part in. Returns `false` if the text is not such a command.
    pub(super) fn own_command(&mut self, text: &str, now: Duration) -> bool {
        if matches!(text.trim(), "exit" | "quit") {
            self.quit(now);
            return true;
        }
        let Some((name, argument)) = command_of(text) else { return false };
        let known = self.commands.iter().find(|command| command.name == name);
        let Some(command) = known.and_then(|known| known.ui_command(argument)) else { return false };
        match (command, argument) {
            (UiCommand::Agents, _) => self.toggle_agents(),
            (UiCommand::Quit, _) => self.quit(now),
            (UiCommand::Copy, argument) => self.copy_command(argument, now),
            (UiCommand::Edit, text) => self.requests.push(UiRequest::Edit(text.to_owned())),
            (UiCommand::Settings, _) => self.list_settings(now),
            (UiCommand::Keys, _) => self.list_keys(now),
            (UiCommand::ChooseSession, _) => self.requests.push(UiRequest::List(Pick::Session)),
            (UiCommand::ChooseModel, _) => self.requests.push(UiRequest::List(Pick::Model)),
            (UiCommand::Theme, "") => self.requests.push(UiRequest::List(Pick::Theme)),
            (UiCommand::Theme, name) => self.requests.push(UiRequest::Theme(name.to_owned())),
            (UiCommand::Plan, task) => self.plan_command(task, now),
            (UiCommand::EditPlan, file) => self.edit_plan_command(file, now),
            (UiCommand::Execute, file) => self.execute_command(file, now),
            (UiCommand::Aside, "") => self.hint("`/btw` takes a question", now),
            (UiCommand::Aside, question) => {
                self.transcript.follow();
                self.hint(ASKING, now);
                self.asides += 1;
                self.requests.push(UiRequest::Aside(question.to_owned()));
            }
            (UiCommand::Immediate | UiCommand::Mode, argument) => {
                self.transcript.follow();
                if command == UiCommand::Mode && !argument.is_empty() {
                    self.leave_plan_mode();
                }
                self.requests.push(UiRequest::Own(text.to_owned()));
            }
        }
        true
    }

    /// Copies the selected block, or else the last answer.
    pub(super) fn copy(&mut self, now: Duration) {
        match self.transcript.selected_text() {
            Some(text) => self.copy_text(text, "the selected block", now),
            None => self.copy_answer(1, now),
        }
    }

    fn copy_command(&mut self, argument: &str, now: Duration) {
        let (is_code, number) = match argument.strip_prefix("code") {
            Some(number) => (true, number.trim()),
            None => (false, argument),
        };
        match (if number.is_empty() { Ok(1) } else { number.parse() }, is_code) {
            (Ok(number @ 1..), true) => self.copy_code(number, now),
            (Ok(number @ 1..), false) => self.copy_answer(number, now),
            _ => self
                .hint("`/copy` takes the number of an answer, 1 for the last one; `/copy code`, of a code block", now),
        }
    }

    /// Copies an answer of the model as it was written; 1 stands for the last one.
    fn copy_answer(&mut self, number: usize, now: Duration) {
        self.copy_nth(self.transcript.answer(number), "answer", number, now);
    }

    /// Copies a code block of the model's answers; 1 stands for the last one.
    pub(super) fn copy_code(&mut self, number: usize, now: Duration) {
        self.copy_nth(self.transcript.code(number), "code block", number, now);
    }

    fn copy_nth(&mut self, text: Option<String>, what: &str, number: usize, now: Duration) {
        match (text, number) {
            (Some(text), 1) => self.copy_text(text, &format!("the last {what}"), now),
            (Some(text), _) => self.copy_text(text, &format!("{what} {number} from the end"), now),
            (None, _) => self.hint(format!("there is no such {what} to copy"), now),
        }
    }

    pub(super) fn copy_text(&mut self, text: String, what: &str, now: Duration) {
        self.hint(format!("copied {} of {what}", count(text.chars().count() as u64, "character")), now);
        self.requests.push(UiRequest::Copy(text));
    }
}
