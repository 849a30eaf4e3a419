//! Slash commands of the UI itself. They take effect at once, also while the agent works.

use crate::commands::command_of;
use crate::dialog::picker::Pick;
use crate::input::Request;
use crate::update::App;
use std::time::Duration;

impl App {
    /// Runs a command of the UI. Returns `false` if the text is none.
    pub(super) fn own_command(&mut self, text: &str, now: Duration) -> bool {
        if matches!(text.trim(), "exit" | "quit") {
            self.quit(now);
            return true;
        }
        let Some((name, argument)) = command_of(text) else { return false };
        match (name, argument) {
            ("exit" | "quit", "") => self.quit(now),
            ("copy", "") => self.copy_answer(1, now),
            ("copy", number) => match number.parse() {
                Ok(number) if number > 0 => self.copy_answer(number, now),
                _ => self.hint("`/copy` takes the number of an answer, 1 for the last one", now),
            },
            ("editor", text) => self.requests.push(Request::Edit(text.to_owned())),
            ("keys", _) => {
                let help = self.settings.keys.help();
                self.page(&help);
            }
            ("resume", "") => self.requests.push(Request::List(Pick::Session)),
            ("model", "") => self.requests.push(Request::List(Pick::Model)),
            ("theme", "") => self.requests.push(Request::List(Pick::Theme)),
            ("theme", name) => self.requests.push(Request::Theme(name.to_owned())),
            ("plan", task) => self.plan_command(task, now),
            ("execute", file) => self.execute_command(file, now),
            ("btw", "") => self.hint("`/btw` takes a question", now),
            ("btw", question) => {
                self.transcript.follow();
                self.hint("asking beside the conversation; the answer follows", now);
                self.asides += 1;
                self.requests.push(Request::Aside(question.to_owned()));
            }
            (name, argument) if self.commands.iter().any(|command| command.name == name && command.is_immediate) => {
                self.transcript.follow();
                if name == "mode" && !argument.is_empty() {
                    self.leave_plan_mode();
                }
                self.requests.push(Request::Own(text.to_owned()));
            }
            _ => return false,
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

    /// Copies an answer of the model as it was written; 1 stands for the last one.
    fn copy_answer(&mut self, number: usize, now: Duration) {
        let what = if number == 1 { "the last answer".to_owned() } else { format!("answer {number} from the end") };
        match self.transcript.answer(number) {
            Some(text) => self.copy_text(text, &what, now),
            None => self.hint("there is no such answer to copy", now),
        }
    }

    fn copy_text(&mut self, text: String, what: &str, now: Duration) {
        self.hint(format!("copied {} characters of {what}", text.chars().count()), now);
        self.requests.push(Request::Copy(text));
    }
}
