//! Runs of the agent for a user: conversations in the full screen or in lines, printed runs, and plans.
//!
//! [`run`] selects the form:
//!
//! - A conversation is a `chat`. Plugins offer its slash commands: `perform` carries out their actions, which `actions`
//!   lists. `full` connects it with the screen of `pinion-tui`, and `line_editor` and `render` are its form in lines.
//! - `print` and `structured_run` are runs without a conversation.
//! - `plan` makes plans and executes them.
//!
//! The public modules have the parts that commands show as well: costs, sessions, exports, rules, and the question whether
//! to trust a project.

mod actions;
pub mod call_rows;
mod chat;
mod compaction_report;
mod context_report;
mod conversation_output;
mod elsewhere;
pub mod export;
mod full;
mod images;
mod line_editor;
mod line_reports;
mod modes;
mod patch;
mod perform;
pub mod permission_rules;
mod plan;
mod print;
mod prompt_input;
pub mod render;
#[cfg(test)]
mod render_hostile_tests;
#[cfg(test)]
mod render_tests;
mod resumed_ending;
pub mod run_end;
pub mod runs;
pub mod session_list;
mod shell;
mod side_question;
mod streamed;
mod structured_run;
pub mod transcript;
pub mod trust_question;
mod undo;
mod waiting;

/// The cost of turns: a line after each, and the pages of `/cost` and `pinion session cost`.
pub mod cost {
    mod reasons;
    mod tables;
    mod turn_line;
    mod warnings;

    pub(crate) use self::reasons::reasons;
    pub use self::tables::{CostGroup, cost_json, cost_table};
    pub(crate) use self::turn_line::TurnMeter;
}

pub use self::full::editor_command;

use crate::actions::ACTIONS;
use crate::trust_question::ask_at_start;
use futures_util::future::BoxFuture;
use pinion_app::config::Config;
use pinion_app::failure::{Failure, Result};
use pinion_app::files::paths::Paths;
use pinion_app::options::UiForm;
use pinion_app::workspace_base::Base;
use pinion_console::args::{RunArgs, UI_FORMS, by_name};
use pinion_console::invocation::Invocation;
use pinion_console::output::terminal;
use std::panic::resume_unwind;

/// Environment variable with the name of a form.
const VARIABLE: &str = "PINION_UI";

/// Asks the user something about a project before a conversation begins.
pub type StartQuestion = for<'a> fn(&'a Base) -> BoxFuture<'a, Result<()>>;

/// Runs the agent in the way that the options select. `ask` is called before a conversation, after the question about
/// trust.
///
/// # Errors
/// The run could not start, or ended in another way than a success.
pub async fn run(invocation: &Invocation, ask: StartQuestion) -> Result<()> {
    let paths = Paths::from_environment()?;
    let workspace = invocation.workspace()?;
    let mut config = invocation.config(&paths, &workspace)?;
    let (args, global) = (&invocation.run, &invocation.global);
    if args.patch.is_some() && args.is_conversation() {
        return Err(Failure::usage("--patch needs a run without a conversation")
            .hint("add -p, or use `pinion session diff ID` after the conversation"));
    }
    if args.is_conversation() && ask_at_start(&paths, &workspace, &config)? {
        config = invocation.config(&paths, &workspace)?;
    }
    let base = invocation.base_with(paths, workspace, config)?;
    if args.is_conversation() {
        ask(&base).await?;
    }
    let done = match (&args.execute, &args.output_schema) {
        (Some(plan), _) => plan::execute(&base, args, global, plan).await,
        (None, Some(schema)) => structured_run::run(&base, args, global, schema).await,
        (None, None) if args.plan => plan::make(&base, args, global).await,
        (None, None) if args.is_conversation() => match form_of_conversation(args, &base.config)? {
            form @ (UiForm::Full | UiForm::Inline) => {
                full::run(&base, args, global, ACTIONS, form == UiForm::Inline).await
            }
            UiForm::Line => chat::run(&base, args, global, ACTIONS).await,
            UiForm::Reader => {
                terminal::set_linear();
                chat::run(&base, args, global, ACTIONS).await
            }
        },
        (None, None) => {
            // On a worker, where the agent and its connections share a thread and do not have to wake each other.
            let (base, args, global) = (base.clone(), args.clone(), global.clone());
            let running = tokio::spawn(async move { print::run(&base, &args, &global).await });
            running.await.unwrap_or_else(|error| resume_unwind(error.into_panic()))
        }
    };
    base.end_mcp_servers().await;
    done
}

/// Returns the form of a conversation: from `--ui` or `--inline`, or else from `PINION_UI`, or else from the config. A
/// terminal that cannot move its cursor gets lines instead of the full screen and of the inline form.
///
/// # Errors
/// `PINION_UI` names no form.
fn form_of_conversation(args: &RunArgs, config: &Config) -> Result<UiForm> {
    let wanted = match args.ui.or(args.inline.then_some(UiForm::Inline)) {
        Some(form) => form,
        None => of_environment()?.unwrap_or(config.ui),
    };
    let moves_cursor = matches!(wanted, UiForm::Full | UiForm::Inline);
    Ok(if moves_cursor && !can_show_screen() { UiForm::Line } else { wanted })
}

fn of_environment() -> Result<Option<UiForm>> {
    let Some(name) = std::env::var_os(VARIABLE).filter(|name| !name.is_empty()) else { return Ok(None) };
    let form = name.to_str().and_then(|name| by_name(name.to_owned()).ok());
    form.map(Some).ok_or_else(|| {
        let names: Vec<String> = UI_FORMS.iter().map(|(name, _)| format!("`{name}`")).collect();
        Failure::usage(format!("invalid value of {VARIABLE}: `{}`", name.display()))
            .hint(format!("the forms of conversations are {}", names.join(", ")))
    })
}

/// Returns whether the terminal moves its cursor, and has a size.
fn can_show_screen() -> bool {
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    !is_dumb && terminal::gets_size()
}
