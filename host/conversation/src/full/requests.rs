//! The requests of the UI, which this program carries out.

use crate::actions::definition::{ActionScene, complete_argument, find_action};
use crate::full::approver::AnswerChannel;
use crate::full::editor::Editing;
use crate::full::settings::{multiplexer, notification};
use crate::full::ui::{Ui, UiWork};
use crate::full::{clipboard, history, lists, planning, sessions, themes};
use crate::images::with_images;
use crate::modes;
use crate::side_question;
use pinion_app::failure::Result;
use pinion_app::workspace_base::Base;
use pinion_console::process::signals;
use pinion_plugin_runtime::HostAction;
use pinion_tui::terminal;
use pinion_tui::{Input, Pick, Tone, UiRequest};
use std::time::Duration;

/// Time for the work in progress and the terminal when the user quits.
pub(super) const QUIT: Duration = Duration::from_millis(450);

impl Ui {
    /// Carries a request out.
    pub(super) fn perform(&mut self, request: UiRequest) {
        match request {
            UiRequest::Submit(text) => self.work.push_back(UiWork::Line(text)),
            UiRequest::Plan { text, file } => self.work.push_back(UiWork::Plan { text, file }),
            UiRequest::OpenPlan(file) => planning::open(self, file),
            UiRequest::SavePlan { file, text } => self.work.push_back(UiWork::SavePlan { file, text }),
            UiRequest::Execute(file) => self.work.push_back(UiWork::Execute(file)),
            UiRequest::Resume(id) => self.work.push_back(UiWork::Resume(id)),
            UiRequest::Own(line) => self.own(&line),
            UiRequest::NextThinking => {
                let level = modes::next_thinking(&self.to.agent);
                self.refresh();
                self.input(Input::Remark(format!("thinking: {level}, from the next message on")));
            }
            UiRequest::Mode(name) => modes::set_mode(&self.to.agent, &name),
            UiRequest::Theme(name) => match self.look.choose(&self.to.base, &name) {
                Ok(theme) => {
                    self.input(Input::Theme(theme));
                    self.to.said.push_input(Input::Note(Tone::Plain, themes::chosen(&self.to.base, &name)));
                    self.ask();
                }
                Err(failure) => self.to.said.failure(&failure),
            },
            UiRequest::Fork(id) => self.work.push_back(UiWork::Fork(id)),
            UiRequest::Preview(id) => sessions::about(self.to.said.clone(), self.to.base.clone(), id),
            UiRequest::RenameSession { id, name, list } => {
                self.sessions(list, move |base| sessions::rename(base, &id, &name));
            }
            UiRequest::DeleteSession { id, list } => self.sessions(list, move |base| sessions::delete(base, &id)),
            UiRequest::CopyCommand(id) => match sessions::command(&self.to.base, &id) {
                Ok(command) => {
                    self.canvas.write(&terminal::copy(&command, multiplexer()));
                    self.input(Input::Remark(format!("copied `{command}`")));
                    clipboard::copy(command);
                }
                Err(failure) => self.input(Input::Remark(failure.message())),
            },
            UiRequest::Steer(text) => self.steer(text),
            UiRequest::SteerAgent { run_id, text } => self.steer_agent(&run_id, text),
            UiRequest::EndAgent(run_id) if self.to.base.running_agents.end(&run_id) => {}
            UiRequest::EndAgent(_) => self.input(Input::Remark("it has ended".to_owned())),
            // A command of the user is no call of the agent.
            UiRequest::InterruptCalls if !self.to.agent.is_running() => self.interrupt(),
            UiRequest::InterruptCalls => self.to.agent.config().inbox.steering.urge(),
            UiRequest::Recall => self.take_back(),
            UiRequest::Interrupt => self.interrupt(),
            UiRequest::Answer(id, answer) => {
                if let Some((_, AnswerChannel::Call(reply))) = self.open.take_if(|(open, _)| *open == id) {
                    // A question that was dropped meanwhile needs no answer.
                    let _ = reply.send(answer);
                }
            }
            UiRequest::Reply(id, answer) => {
                if let Some((_, AnswerChannel::Plugin(reply))) = self.open.take_if(|(open, _)| *open == id) {
                    let _ = reply.send(answer);
                }
            }
            UiRequest::Complete { id, command, argument } => self.complete(id, command, argument),
            UiRequest::ListFiles => lists::offer_files(self.to.said.clone(), &self.to.base),
            UiRequest::List(pick) => self.list(pick),
            UiRequest::Edit(text) => self.edit(text),
            UiRequest::PastePicture => clipboard::paste(self.to.said.clone(), self.to.base.clone()),
            UiRequest::Aside(question) => {
                let token = self.asides.child_token();
                side_question::ask(self.to.said.clone(), self.to.agent.clone(), question, token);
            }
            UiRequest::CancelAsides => std::mem::take(&mut self.asides).cancel(),
            UiRequest::Copy(text) => {
                self.canvas.write(&terminal::copy(&text, multiplexer()));
                clipboard::copy(text);
            }
            UiRequest::SaveDraft { text, queue } => self.to.drafts.save(&self.session(), text, queue),
            UiRequest::Remember(text) => history::remember(&self.to.base, &text),
            UiRequest::Notify(text) => {
                self.canvas.write(&terminal::notification(notification(&self.to.base), &text, multiplexer()));
            }
            UiRequest::Mouse(is_reported) => self.canvas.report_mouse(is_reported),
            UiRequest::Suspend => {
                self.canvas.leave();
                signals::suspend();
                self.reenter();
            }
            UiRequest::Redraw => self.canvas.forget(),
            UiRequest::Quit => {
                self.is_quitting = true;
                self.ending.get_or_insert_with(|| signals::end_after(QUIT));
                self.interrupt();
            }
        }
    }

    /// Adds a message to the run in progress, behind its calls, with its pictures and the messages that waited for the
    /// next one.
    fn steer(&mut self, text: String) {
        let (message, problems) = with_images(&self.to.base, &self.to.info.model(), text.into());
        problems.into_iter().for_each(|problem| self.to.said.push_input(Input::Note(Tone::Warning, problem)));
        let with_it = self.to.pending.take_messages();
        self.steered.extend(with_it.iter().cloned());
        let steering = self.to.agent.config().inbox.steering;
        with_it.into_iter().chain([message]).for_each(|message| steering.push_patient(message));
    }

    /// Adds a message to a sub-agent's run. A text that came too late returns to the editor.
    fn steer_agent(&mut self, run_id: &str, text: String) {
        let (message, problems) = with_images(&self.to.base, &self.to.info.model(), text.clone().into());
        problems.into_iter().for_each(|problem| self.to.said.push_input(Input::Note(Tone::Warning, problem)));
        if !self.to.base.running_agents.steer(run_id, message) {
            self.input(Input::Insert(text));
            self.input(Input::Remark("not sent: it has ended".to_owned()));
        }
    }

    /// Runs a command whose action takes effect at once.
    fn own(&mut self, line: &str) {
        let named =
            pinion_tui::command_of(line).and_then(|(name, arguments)| self.to.runtime.bound_action(name, arguments));
        match named {
            Some(Ok(HostAction::Perform { name, arguments })) => {
                let scene = ActionScene { agent: &self.to.agent, base: &self.to.base, theme: self.look.chosen() };
                let action = find_action(self.to.actions, &name);
                let page = action.and_then(|action| action.perform_at_once(&scene, &arguments));
                page.into_iter().for_each(|page| self.to.said.page(&page));
            }
            Some(Err(error)) => self.to.said.push_input(Input::Note(Tone::Warning, format!("{error:#}"))),
            // A plugin was replaced meanwhile.
            _ => self.work.push_back(UiWork::Line(line.to_owned())),
        }
        self.refresh();
    }

    /// Completes an argument, instead of the text that was typed before.
    fn complete(&mut self, id: u64, command: String, argument: String) {
        let (said, runtime, base) = (self.to.said.clone(), self.to.runtime.clone(), self.to.base.clone());
        let actions = self.to.actions;
        let completing = tokio::spawn(async move {
            let choices = complete_argument(&base, &runtime, actions, &command, &argument).await;
            said.push_input(Input::Completions(id, choices));
        });
        if let Some(stale) = self.completing.replace(completing.abort_handle()) {
            stale.abort();
        }
    }

    fn list(&self, pick: Pick) {
        let (said, base, current) = (self.to.said.clone(), self.to.base.clone(), self.to.info.model());
        tokio::spawn(async move {
            let choices = match pick {
                Pick::Model => lists::models(&base, &current).await,
                Pick::Theme => themes::list(&base),
                _ => tokio::task::spawn_blocking(move || lists::sessions(&base, pick)).await.unwrap_or_default(),
            };
            said.push_input(Input::Choices(pick, choices));
        });
    }

    fn sessions(&self, list: Pick, change: impl FnOnce(&Base) -> Result<()> + Send + 'static) {
        sessions::change(self.to.said.clone(), self.to.base.clone(), list, change);
    }

    /// Interrupts a run, or the plugin of a slash command.
    fn interrupt(&self) {
        self.to.agent.abort();
        signals::interrupt();
    }

    /// Lets the user edit a message in another program, which has the terminal meanwhile. The work in progress continues.
    fn edit(&mut self, text: String) {
        self.editing = Some(Editing::new(text, self.look.answer_until()));
    }
}
