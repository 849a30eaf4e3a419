//! A conversation in the full-screen UI.
//!
//! The UI of `pinion-tui` draws the screen and interprets keys; this module connects it with the terminal, the agent
//! and the files. Messages and slash commands take the same way as in a conversation by lines ([`Chat::enter`]).

mod approver;
mod canvas;
mod clipboard;
mod drafts;
mod editor;
mod highlight_thread;
mod history;
mod keyboard;
pub(super) mod lists;
mod local_choices;
mod opening_screen;
mod planning;
mod requests;
mod sessions;
mod settings;
mod setup;
pub(super) mod themes;
mod ui;
pub(crate) mod ui_inbox;

pub use self::editor::editor_command;

use crate::actions::definition::{ActionTable, describe_actions};
use crate::chat::Chat;
use crate::conversation_output::Voice;
use crate::cost::TurnMeter;
use crate::full::approver::UiApprover;
use crate::full::drafts::Drafts;
use crate::full::opening_screen::OpeningScreen;
use crate::full::settings::settings;
use crate::full::ui::{Connections, Ui, UiWork};
use crate::full::ui_inbox::UiInbox;
use crate::images::Prompt;
use crate::perform::NextPrompt;
use crate::shell::PendingMessages;
use pinion_app::failure::{Failure, Result, Status};
use pinion_app::plugins::sources::Purpose;
use pinion_app::run::notices::PluginNotices;
use pinion_app::workspace_base::Base;
use pinion_console::args::{GlobalArgs, RunArgs};
use pinion_console::output::{Text, text};
use pinion_console::process::signals::{self, interruptible};
use pinion_plugin_runtime::HostAction as Effect;
use pinion_tui::{Action, Input, Pick, Tone, UiRequest, UiSettings};
use std::sync::Arc;
use tokio::sync::mpsc;

/// Maximum number of events that wait for the UI.
const CHANNEL: usize = 1024;

/// Converses on the whole screen, or inline.
pub(crate) async fn run(
    base: &Base,
    args: &RunArgs,
    global: &GlobalArgs,
    actions: ActionTable,
    is_inline: bool,
) -> Result<()> {
    // The list is above a new session, which leaves nothing behind if another one is chosen.
    let is_choosing = args.chooses_session();
    let args = &RunArgs { resume: args.resume.clone().filter(|_| !is_choosing), ..args.clone() };
    let settings = settings(base, global, is_inline)?;
    let completed = setup::complete(base, args).await?;
    let base = completed.as_ref().unwrap_or(base);
    let opening = OpeningScreen::of_long_session(base, args, &settings)?;
    let notices = Arc::new(PluginNotices::default());
    let received = notices.clone();
    let (questions, asked) = mpsc::channel(1);
    let said = Arc::new(UiInbox::default());
    let approver = Arc::new(UiApprover::new(questions, said.clone(), base.permissions.clone()));
    let ready = base
        .ready(&args.options(), Purpose::Conversation, approver, move |notice| received.push_notice(&notice))
        .await?;
    let watch = ready.runtime.watch(base.plugin_directories(&args.options()));
    notices.startup_is_over();
    ready.info.offer(describe_actions(actions, true));
    let pending = PendingMessages::default();
    let mut chat = Chat { base, args, ready, voice: Voice::Screen(said.clone()), pending: pending.clone(), actions };
    let facts = chat.facts();
    let is_new = chat.ready.session.history.messages.is_empty() && args.prompt.is_empty();
    chat.show_session();
    if base.config.tui.greeting.unwrap_or(true) {
        greet(&said, &facts, &settings, is_new);
    }
    chat.ready.notices(base).into_iter().for_each(|notice| said.push_input(Input::Note(Tone::Warning, notice)));
    if let Err(error) = &watch {
        chat.write_line(&text!("! {}", Text::block(pinion_app::failure::with_causes(error))));
    }
    let events = chat.ready.agent.subscribe(CHANNEL);
    let (agent, runtime, info) = (chat.ready.agent.clone(), chat.ready.runtime.clone(), chat.ready.info.clone());
    let (drafts, draft) = Drafts::open(base, &chat.ready.session.id, args.continues());
    let connections = Connections {
        base: base.clone(),
        agent,
        runtime,
        info,
        events,
        asked,
        said,
        notices,
        drafts,
        pending,
        actions,
    };
    let opening = opening.map_or_else(|| OpeningScreen::new(base, settings), Ok)?;
    let mut ui = Ui::open(connections, opening, draft);
    if is_choosing {
        ui.perform(UiRequest::List(Pick::Session));
    }
    let conversed = converse(&mut chat, &mut ui, args.prompt.join(" ")).await;
    ui.close().await;
    chat.end(conversed).await
}

fn greet(said: &UiInbox, facts: &[String], settings: &UiSettings, is_new: bool) {
    let facts = facts.join(" · ");
    said.push_input(Input::Note(Tone::Plain, format!("pinion {} · {facts}", env!("CARGO_PKG_VERSION"))));
    let says = |action, separator, does| settings.keys.says(action, separator, does);
    let keys = [
        says(Action::Help, ", ", "keys"),
        says(Action::Interrupt, "; ", "interrupts"),
        says(Action::Quit, ", ", "exits"),
        says(Action::Mouse, ", ", "mouse"),
    ];
    said.push_input(Input::Note(Tone::Plain, format!("/ lists commands, @ files{}", keys.concat())));
    if is_new {
        let plans = says(Action::Mode, " · ", "plans first");
        said.push_input(Input::Note(Tone::Plain, format!("try: explain this repository · /init{plans}")));
    }
}

/// Works on messages and commands one after another until the user quits.
async fn converse(chat: &mut Chat<'_>, ui: &mut Ui, first: String) -> Result<()> {
    let _signals = signals::waiting(|| {});
    if !first.trim().is_empty() {
        ui.submit(first);
    } else if chat.args.continues() && chat.ready.is_unfinished() {
        chat.write_line(&text!("Continuing the unfinished run"));
        work(chat, ui, None).await?;
        ui.finished();
    }
    loop {
        chat.ready.check_built_ins()?;
        let next = match ui.next().await? {
            None => return Ok(()),
            Some(UiWork::Line(line)) => ui.during(chat.enter(line.trim())).await?,
            Some(UiWork::Plan { text, file }) => {
                planning::plan(chat, ui, text, file.as_deref()).await?;
                NextPrompt::default()
            }
            Some(UiWork::SavePlan { file, text }) => {
                planning::save_edited(chat, ui, &file, &text);
                continue;
            }
            Some(UiWork::Execute(file)) => {
                planning::execute(chat, ui, &file).await?;
                NextPrompt::default()
            }
            Some(UiWork::Fork(id)) => ui.during(chat.fork_of(&id)).await?,
            Some(UiWork::Resume(id)) => ui.during(chat.perform(vec![Effect::Resume(Some(id))])).await?,
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
        next.offer.into_iter().for_each(|text| ui.input(Input::Offer(text)));
        ui.finished();
    }
}

/// Runs the agent on one message, or continues the last run without one.
async fn work(chat: &mut Chat<'_>, ui: &mut Ui, message: Option<Prompt>) -> Result<()> {
    let (agent, prompts) = (chat.ready.agent.clone(), chat.prompts(message).await);
    ui.show_output();
    let meter = TurnMeter::begin(chat.base, &agent);
    let (outcome, _) = ui.during(interruptible(&agent, chat.ready.work(prompts))).await?;
    chat.say_gaps();
    match outcome {
        Ok(outcome) => chat.say_turn_cost(meter, &outcome),
        Err(error) => chat.write_line(&text!("! {}", Text::block(error))),
    }
    Ok(())
}
