//! Runs of the agent for a user: conversations in the full screen or in lines, printed runs, and plans.
//!
//! [`run`] selects the form:
//!
//! - A conversation is a `chat`. Plugins offer its slash commands: `perform` carries out their actions, and `actions` has one
//!   file for each. `full` connects it with the screen of `pinion-tui`, and `line_editor` and `render` are its form in lines.
//! - `print` and `structured_run` are runs without a conversation.
//! - `plan` makes plans and executes them.
//!
//! The public modules have the parts that commands show as well: costs, sessions, exports, rules, and the question whether
//! to trust a project.

mod actions;
mod arguments;
pub mod call_rows;
mod chat;
mod compaction_report;
mod context_report;
mod conversation_form;
mod conversation_output;
pub mod cost;
mod elsewhere;
pub mod export;
mod full;
mod images;
mod line_editor;
mod line_reports;
mod modes;
mod patch;
mod pending_messages;
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

pub use self::full::editor_command;

use crate::actions::ACTIONS;
use crate::trust_question::ask_at_start;
use pinion_app::failure::{Failure, Result};
use pinion_app::files::paths::Paths;
use pinion_app::options::UiForm;
use pinion_console::invocation::Invocation;
use pinion_console::output::terminal;
use std::panic::resume_unwind;

/// Runs the agent in the way that the options select.
///
/// # Errors
/// The run could not start, or ended in another way than a success.
pub async fn run(invocation: &Invocation) -> Result<()> {
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
    let done = match (&args.execute, &args.output_schema) {
        (Some(plan), _) => plan::execute(&base, args, global, plan).await,
        (None, Some(schema)) => structured_run::run(&base, args, global, schema).await,
        (None, None) if args.plan => plan::make(&base, args, global).await,
        (None, None) if args.is_conversation() => match conversation_form::of_conversation(args, &base.config)? {
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
