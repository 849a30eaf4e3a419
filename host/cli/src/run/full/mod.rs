//! A conversation in the full-screen UI.
//!
//! The UI of `pinion-tui` draws and decides what keys mean; this module connects it with the terminal, the agent and the
//! files. Messages and slash commands take the same way as in a conversation by lines ([`Chat::enter`]).

mod approver;
mod editor;
mod keep;
mod keyboard;
mod lists;
pub(crate) mod said;
mod ui;

use crate::args::{GlobalArgs, RunArgs};
use crate::base::Base;
use crate::commands::session::short_id;
use crate::config::Config;
use crate::config::file::Ui as UiSetting;
use crate::failure::{Failure, Result, Status};
use crate::output::terminal::Style;
use crate::output::{Text, say, text};
use crate::plugins::sources::Purpose;
use crate::process::signals::{self, interruptible};
use crate::run::chat::{Chat, Notices, Voice};
use crate::run::full::approver::UiApprover;
use crate::run::full::said::Said;
use crate::run::full::ui::{Connections, Ui, Work};
use pinion_agent::Message;
use pinion_plugin_runtime::Action;
use pinion_tui::{Input, KeyMap, Settings, Theme, Tone};
use std::sync::Arc;
use tokio::sync::mpsc;

/// Maximum number of events that wait for the UI.
const CHANNEL: usize = 1024;

/// Returns whether the user wants the full-screen UI, and the terminal can show it.
pub(crate) fn is_wanted(args: &RunArgs, config: &Config) -> bool {
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    (args.tui || config.ui == UiSetting::Full) && !is_dumb
}

pub(crate) async fn run(base: &Base, args: &RunArgs, global: &GlobalArgs) -> Result<()> {
    let settings = settings(base, global)?;
    let notices = Arc::new(Notices::default());
    let received = notices.clone();
    let (questions, asked) = mpsc::channel(1);
    let approver = Arc::new(UiApprover::new(questions));
    let ready = base.ready(args, Purpose::Conversation, approver, move |notice| received.put(&notice)).await?;
    let watch = ready.runtime.watch(base.plugin_directories(args));
    notices.startup_is_over();
    let said = Arc::new(Said::default());
    let mut chat = Chat { base, args, ready, voice: Voice::Screen(said.clone()) };
    chat.show_session();
    greet(&chat, &said);
    if let Err(error) = &watch {
        chat.say(&text!("! {}", Text::block(crate::failure::with_causes(error))));
    }
    let events = chat.ready.agent.subscribe(CHANNEL);
    let (agent, runtime, info) = (chat.ready.agent.clone(), chat.ready.runtime.clone(), chat.ready.info.clone());
    let connections = Connections { base: base.clone(), agent, runtime, info, events, asked, said, notices };
    let mut ui = Ui::open(connections, settings)?;
    let conversed = converse(&mut chat, &mut ui, args.prompt.join(" ")).await;
    ui.close();
    let saved = chat.ready.session.sync().and(base.exchanges.finish());
    if let Some(session) = chat.ready.session.on_disk.as_ref().filter(|session| session.path().exists()) {
        say(&Style::of_stdout().dim(text!("Resume with: pinion -r {}", short_id(session.id()))));
    }
    conversed.and(saved)
}

fn settings(base: &Base, global: &GlobalArgs) -> Result<Settings> {
    let theme = if Style::of_stdout() == Style::Colour { Theme::colours() } else { Theme::plain() };
    let mut keys = KeyMap::default();
    for (action, names) in &base.config.keys {
        let set = keys.set(action, names.iter().map(String::as_str));
        set.map_err(|error| Failure::usage(format!("invalid config: `[keys]`: {error}")))?;
    }
    let has_reduced_motion = std::env::var_os("PINION_REDUCED_MOTION").is_some_and(|value| !value.is_empty());
    Ok(Settings { theme, keys, has_ledgers: global.verbose > 0, has_reduced_motion, ..Settings::default() })
}

fn greet(chat: &Chat<'_>, said: &Said) {
    said.put(Input::Note(Tone::Plain, chat.facts().join(" · ")));
    said.put(Input::Note(Tone::Plain, "/ lists commands, @ files, f1 keys; esc interrupts, ctrl+d exits".to_owned()));
    chat.ready.notices(chat.base).into_iter().for_each(|notice| said.put(Input::Note(Tone::Warning, notice)));
}

/// Works on messages and commands one after another until the user quits.
async fn converse(chat: &mut Chat<'_>, ui: &mut Ui, first: String) -> Result<()> {
    let _signals = signals::waiting(|| {});
    if !first.trim().is_empty() {
        ui.submit(first);
    } else if chat.args.continues() && chat.ready.is_unfinished() {
        chat.say(&text!("Continuing the unfinished run"));
        work(chat, ui, None).await?;
        ui.finished();
    }
    loop {
        chat.ready.check_built_ins()?;
        let next = match ui.next().await? {
            None => return Ok(()),
            Some(Work::Line(line)) => ui.during(chat.enter(line.trim())).await?,
            Some(Work::Resume(id)) => ui.during(chat.perform(vec![Action::Resume(Some(id))])).await?,
        };
        for message in next.submit {
            work(chat, ui, Some(message)).await?;
        }
        if signals::is_final() {
            return Err(Failure::new(Status::Interrupted, "interrupted"));
        }
        if next.quit {
            return Ok(());
        }
        next.insert.into_iter().for_each(|text| ui.insert(text));
        ui.finished();
    }
}

/// Runs the agent on one message, or continues the last run without one.
async fn work(chat: &Chat<'_>, ui: &mut Ui, message: Option<String>) -> Result<()> {
    let agent = chat.ready.agent.clone();
    let (outcome, _) = ui.during(interruptible(&agent, chat.ready.work(message.map(Message::user)))).await?;
    if let Err(error) = outcome {
        chat.say(&text!("! {}", Text::block(error)));
    }
    Ok(())
}
