//! The actions that slash commands take on a conversation.

use crate::actions::definition::find_action;
use crate::chat::Chat;
use crate::conversation_output::Voice;
use crate::images::Prompt;
use pinion_agent::identity::RunNumbers;
use pinion_agent::{Context, Message};
use pinion_app::failure::{Failure, Result};
use pinion_app::files::paths::shown_directory;
use pinion_app::prompt::context::Context as ContextFiles;
use pinion_app::run::session::{OpenSession, fork, here};
use pinion_app::sessions::short_id;
use pinion_console::output::{Text, count, page, text};
use pinion_console::process::signals::{interruptible, interruptible_by};
use pinion_mcp::serve::OWN_CONTENT;
use pinion_plugin_runtime::HostAction;
use pinion_session_store::{History, ListScope, SessionDirectory};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The action that sends a message with pictures.
const SUBMIT_CONTENT: &str = "submit-content";

/// Continuation of the conversation after a line of the user.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct NextPrompt {
    /// Messages to send to the model.
    pub(crate) submit: Vec<Prompt>,
    /// Text to put into the line that the user edits.
    pub(crate) insert: Option<String>,
    /// An undone prompt, for the history of lines. In the line, a command that is typed next would become a part of it.
    pub(crate) offer: Option<String>,
    /// End the conversation.
    pub(crate) quit: bool,
}

impl Chat<'_> {
    /// Performs actions in order. Reports one that fails, and performs the others all the same.
    pub(crate) async fn perform(&mut self, actions: Vec<HostAction>) -> NextPrompt {
        let mut next = NextPrompt::default();
        for action in actions {
            if let Err(failure) = self.perform_one(action, &mut next).await {
                self.write_line(&text!("! {}", failure));
            }
        }
        next
    }

    async fn perform_one(&mut self, action: HostAction, next: &mut NextPrompt) -> Result<()> {
        match action {
            HostAction::Submit(text) => next.submit.push(text.into()),
            HostAction::Insert(text) => next.insert = Some(self.base.secrets.clean(&text).into_owned()),
            HostAction::Quit => next.quit = true,
            HostAction::Print(markdown) => self.page(&markdown),
            HostAction::SetModel(name) => self.set_model(&name).await?,
            HostAction::Compact(instructions) => self.compact(instructions.as_deref()).await?,
            HostAction::NewSession => self.switch(OpenSession::begin(self.base), "new session").await?,
            HostAction::Resume(id) => self.resume(id.as_deref()).await?,
            HostAction::ReloadPlugins => self.reload().await,
            HostAction::Fork => self.fork().await?,
            HostAction::Perform { name, arguments } => {
                let action = find_action(self.actions, &name);
                let action = action.ok_or_else(|| Failure::failed(format!("there is no action `{name}`")))?;
                let done = action.perform(self, &arguments).await?;
                next.submit.extend(done.submit);
                next.insert = done.insert.or(next.insert.take());
                next.offer = done.offer.or(next.offer.take());
                next.quit |= done.quit;
            }
            HostAction::Unknown { name, argument: Some(argument) } if name == SUBMIT_CONTENT => {
                let prompt = serde_json::from_str::<Prompt>(&argument).map_err(|problem| problem.to_string());
                let prompt = prompt.and_then(Prompt::checked);
                next.submit
                    .push(prompt.map_err(|problem| Failure::failed(format!("cannot send `{name}`: {problem}")))?);
            }
            // Content for MCP clients.
            HostAction::Unknown { name, .. } if name == OWN_CONTENT => {}
            HostAction::Unknown { name, .. } => {
                self.write_line(&text!("! this version of pinion knows no action `{}`", name))
            }
        }
        Ok(())
    }

    async fn set_model(&mut self, name: &str) -> Result<()> {
        let chosen = self.base.other_model(name).await?;
        self.ready.info.set_model(chosen.label.clone());
        self.warn_of_switch();
        self.write_line(&text!("model: {} (`/keep model` keeps it for all conversations)", chosen.label));
        self.ready.agent.configure(|config| {
            config.ports.provider = chosen.provider;
            config.policy.model = chosen.model;
        });
        self.base.learn_window(chosen.window, &self.ready.agent);
        chosen.notices.iter().for_each(|notice| self.write_line(&text!("! {}", notice)));
        Ok(())
    }

    async fn compact(&mut self, instructions: Option<&str>) -> Result<()> {
        let agent = self.ready.agent.clone();
        let (compaction, _) = interruptible(&agent, agent.compact(instructions)).await;
        let compaction = compaction.map_err(Failure::from)?;
        // The screen shows its event.
        if matches!(self.voice, Voice::Lines { .. }) {
            let summary = page(&compaction.summary, self.voice.style());
            let messages = count(compaction.dropped as u64, "message");
            self.write_line(&text!("replaced {} with this summary:\n\n{}", messages, summary));
        }
        Ok(())
    }

    /// Begins another session if the config asks for one after a pause like the last one. Reports a failure.
    pub(crate) async fn begin_session_after_pause(&mut self) {
        let agent = &self.ready.agent;
        let is_due = self.base.config.new_session_after.is_some_and(|pause| agent.is_idle_for(pause));
        let Some(before) = self.ready.session.on_disk.clone().filter(|_| is_due && !agent.history().is_empty()) else {
            return;
        };
        if let Err(failure) = self.switch(OpenSession::begin(self.base), "new session after a long pause").await {
            return self.write_line(&text!("! {}", failure));
        }
        self.write_line(&text!("  /resume {} returns to the one before", short_id(before.id())));
    }

    async fn resume(&mut self, id: Option<&str>) -> Result<()> {
        let directory = SessionDirectory::new(self.base.paths.sessions());
        let Some(id) = id else {
            let listing = directory.list(ListScope::Workspace(&self.base.workspace)).map_err(Failure::from)?;
            let lines = listing.sessions.iter().take(10).map(crate::session_list::line).collect::<Vec<_>>();
            let lines = Text::join(lines, "\n");
            self.write_line(&text!("sessions of this directory (resume one by a prefix of its ID):\n{}", lines));
            return Ok(());
        };
        let (path, elsewhere) = here(self.base, id)?;
        let session = OpenSession::resumed(&path, &self.base.workspace)?;
        let Some(elsewhere) = elsewhere else { return self.switch(session, "resumed session").await };
        self.switch(session, "forked session").await?;
        let shown = shown_directory(&elsewhere);
        self.write_line(&text!("this is a copy, because the session belongs to {}", shown));
        Ok(())
    }

    async fn fork(&mut self) -> Result<()> {
        let session = self.ready.session.on_disk.as_ref();
        let session = session.ok_or_else(|| Failure::failed("cannot fork a session that is not saved"))?;
        let forked = fork(self.base, session.path(), None)?;
        self.switch(OpenSession::resumed(&forked, &self.base.workspace)?, "forked session").await
    }

    /// Continues in a copy of a session. Reports a failure.
    pub(crate) async fn fork_of(&mut self, id: &str) -> NextPrompt {
        if let Err(failure) = self.switch_to_copy(id).await {
            self.write_line(&text!("! {}", failure));
        }
        NextPrompt::default()
    }

    async fn switch_to_copy(&mut self, id: &str) -> Result<()> {
        let path = match here(self.base, id)? {
            (path, None) => fork(self.base, &path, None)?,
            (copy, Some(_)) => copy,
        };
        self.switch(OpenSession::resumed(&path, &self.base.workspace)?, "forked session").await
    }

    /// Continues in another session.
    async fn switch(&mut self, session: OpenSession, what: &str) -> Result<()> {
        let files = self.base.context(&self.args.options());
        let conversation = self.base.conversation(&self.args.options(), &session, &files);
        self.begin_conversation(conversation, files).await;
        self.ready.agent.set_totals(session.totals);
        self.ready.agent.configure(|config| {
            config.ports.store = session.store.clone();
            config.policy.options.session_id = Some(session.id.to_string());
        });
        if let Some(last) = session.messages.last() {
            self.ready.runtime.continue_session(session.id.clone(), last.timestamp().into());
        }
        if let Err(failure) = self.ready.session.sync() {
            self.write_line(&text!("! {}", Text::block(failure.message())));
        }
        self.ready.keeper.begin(session.on_disk.as_ref());
        self.ready.journal.begin(session.on_disk.as_ref());
        self.ready.session = session;
        self.show_session();
        let session = &self.ready.session;
        self.write_line(&text!("{}: {}", what, short_id(&session.id)));
        let notices = session.notices.iter().chain(self.ready.context.notices());
        notices.for_each(|notice| self.write_line(&text!("! {}", Text::block(notice))));
        self.ready.context.remember();
        Ok(())
    }

    /// Continues the session at its position, with these messages and these numbers of runs.
    pub(crate) async fn return_to(
        &mut self,
        messages: Vec<Arc<Message>>,
        runs: RunNumbers,
        last_run: Arc<str>,
    ) -> Result<()> {
        let session = &mut self.ready.session;
        (session.messages, session.runs, session.last_run) = (messages, runs, last_run);
        let files = self.base.context(&self.args.options());
        let context = self.base.conversation(&self.args.options(), &self.ready.session, &files);
        self.begin_conversation(context, files).await;
        if matches!(self.voice, Voice::Screen(_)) {
            let session = &mut self.ready.session;
            let read = session.on_disk.as_ref().map(|session| History::read(session.path()));
            session.history = read.transpose().map_err(Failure::from)?.unwrap_or_default();
            self.show_session();
        }
        Ok(())
    }

    /// Replaces the conversation of the agent. Output of the user's shell commands that the model has not seen belongs to
    /// the one before.
    pub(crate) async fn begin_conversation(&mut self, conversation: Context, files: ContextFiles) {
        self.ready.agent.reset(conversation).await;
        self.ready.context = files;
        drop(self.pending.take_messages());
    }

    async fn reload(&mut self) {
        let runtime = self.ready.runtime.clone();
        let loading = [
            runtime.begin_refresh(),
            runtime.begin(self.base.sources(&self.args.options(), pinion_app::plugins::sources::Purpose::Conversation)),
        ];
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let waiting = async move {
            for loading in loading {
                tokio::select! {
                    () = loading.settled() => {}
                    () = stopped.cancelled() => {}
                }
            }
        };
        interruptible_by(move || stop.cancel(), waiting).await;
        self.ready.slow_plugins().iter().for_each(|notice| self.write_line(&text!("! {}", notice)));
        let plugins = runtime.plugins();
        let problems = runtime.problems();
        let loaded = count(plugins.len() as u64, "plugin");
        self.write_line(&text!("loaded {}, {} failed", loaded, problems.len()));
        problems.iter().for_each(|(plugin, problem)| self.write_line(&text!("! {}: {}", plugin, Text::block(problem))));
    }
}
