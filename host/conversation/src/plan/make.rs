//! `--plan`: explores the project and writes a plan.

use super::file::PlanFile;
use super::{command, end_of, gap, total, with_steps};
use crate::print::{Headless, deny_unattended, fields};
use crate::prompt_input::prompt;
use pinion_agent::message::StopReason;
use pinion_agent::{Message, RunEnd};
use pinion_app::failure::{Failure, Result};
use pinion_app::workspace_base::Base;
use pinion_console::args::{GlobalArgs, RunArgs};
use pinion_console::output::{note, shell_word, text};
use pinion_console::process::signals::interruptible;
use pinion_orchestration::{AnswerError, Plan, make_plan};
use serde_json::json;
use std::ops::Not as _;
use std::path::Path;

pub(crate) async fn make(base: &Base, args: &RunArgs, global: &GlobalArgs) -> Result<()> {
    let named = args.plan_file.as_deref().map(|path| named(base, path)).transpose()?;
    let prompt = prompt(args, global)?;
    let headless =
        Headless::begin(base, args, global, deny_unattended(base.config.approve, base.permissions.clone())).await?;
    let agent = headless.ready.agent.clone();
    let (answer, was_interrupted) = interruptible(&agent, make_plan(&agent, vec![Message::user(prompt)])).await;
    let (plan, end, said) = match answer {
        Ok(answer) => (Some(answer.value), answer.outcome.end, String::new()),
        Err(error) => {
            // The text that the model wrote instead of a plan was paid for.
            let said = if let AnswerError::NoAnswer { text, .. } = &error { text.clone() } else { String::new() };
            match with_steps(&said) {
                Some(plan) => (Some(plan), RunEnd::Done { stop_reason: StopReason::Stop }, String::new()),
                None => (None, end_of(error), said),
            }
        }
    };
    let hint = said.is_empty().not().then_some("stdout has what it wrote instead; try again, or another model");
    let outcome = total(&agent, end);
    let text = plan.as_ref().map_or(base.secrets.clean(&said).into_owned(), Plan::to_markdown);
    let kept = plan.map(|plan| keep(base, named, &plan, &text));
    let path = kept.as_ref().and_then(|kept| kept.as_ref().ok()).map(|file| file.path.display().to_string());
    // A plan that could not be saved is still shown.
    let finished = headless.end().await?;
    finished.answer(&text, &outcome, fields([("plan", json!(path))]))?;
    if let Some(file) = kept.transpose()?.filter(|_| !global.quiet) {
        print_next_command(&file, args, global);
    }
    let ended = finished.verdict(outcome, was_interrupted);
    ended.map_err(|failure| hint.into_iter().fold(failure, Failure::or_hint))
}

/// Resolves the file that the user named. An unsuitable one fails before a model is asked.
fn named(base: &Base, path: &Path) -> Result<PlanFile> {
    let file = PlanFile::new(&base.workspace, path);
    file.check().map(|()| file)
}

fn keep(base: &Base, named: Option<PlanFile>, plan: &Plan, text: &str) -> Result<PlanFile> {
    Plan::parse(text).map_err(|error| Failure::failed("could not save the plan").because(error))?;
    match named {
        Some(file) => file.replace(text).map(|()| file),
        None => PlanFile::create(&base.workspace, &plan.title, text),
    }
}

fn print_next_command(file: &PlanFile, args: &RunArgs, global: &GlobalArgs) {
    let command = command(file, args, global);
    if !gap().is_empty() {
        note(&text!(""));
    }
    let file = shell_word(&file.shown);
    note(&text!("wrote the plan to {}; review and edit it, then run\n  {}", file, command));
}
