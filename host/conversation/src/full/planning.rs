//! Plan mode: the agent writes a plan, and executes it in a new session.

use crate::chat::Chat;
use crate::conversation_output::Voice;
use crate::full::ui::Ui;
use crate::plan::{DIRECTORY, Execution, PlanFile, list_plans, plan_of_text};
use pinion_agent::RunEnd;
use pinion_app::failure::{Failure, Result, with_causes};
use pinion_console::output::{count, text};
use pinion_console::process::signals::{interruptible, interruptible_runs};
use pinion_orchestration::{AnswerError, Plan, make_plan};
use pinion_plugin_runtime::HostAction;
use pinion_session_store::SessionDirectory;
use pinion_tui::Input;
use std::path::Path;

/// Lets the agent write a plan, which replaces the one in `file` if that is named. Reports a failure.
pub(super) async fn plan(chat: &mut Chat<'_>, ui: &mut Ui, task: String, file: Option<&str>) -> Result<()> {
    let (agent, prompts) = (chat.ready.agent.clone(), chat.prompts(Some(task.into())).await);
    let (answer, _) = ui.during(interruptible(&agent, make_plan(&agent, prompts))).await?;
    // The user decides whether a text that the model wrote instead is a plan.
    let text = if let Err(AnswerError::NoAnswer { text, .. }) = &answer { plan_of_text(text) } else { None };
    match (answer, text) {
        (Ok(answer), _) => offer(chat, ui, file, &answer.value),
        (Err(_), Some(plan)) => offer(chat, ui, file, &plan),
        (Err(AnswerError::Ended { .. }), None) => {}
        (Err(error), None) => report(chat, &Failure::failed("could not make a plan").because(with_causes(&error))),
    }
    Ok(())
}

/// Saves a plan and asks how to continue with it. One that cannot be saved is still shown.
fn offer(chat: &Chat<'_>, ui: &mut Ui, file: Option<&str>, plan: &Plan) {
    match save(chat, file, &plan.to_markdown()) {
        Ok((file, text)) => ui.input(Input::Plan { file, text: chat.base.secrets.clean(&text).into_owned() }),
        Err(failure) => {
            chat.page(&plan.to_markdown());
            report(chat, &failure);
        }
    }
}

fn save(chat: &Chat<'_>, file: Option<&str>, text: &str) -> Result<(String, String)> {
    let workspace = &chat.base.workspace;
    let plan = Plan::parse(text).map_err(|error| Failure::failed("could not save the plan").because(error))?;
    let file = match file {
        Some(file) => {
            let file = PlanFile::new(workspace, Path::new(file));
            file.replace(text)?;
            file
        }
        None => PlanFile::create(workspace, &plan.title, text)?,
    };
    Ok((file.shown, text.to_owned()))
}

/// Saves a plan that the user edited, and asks again how to continue. A plan that is invalid is not saved.
pub(super) fn save_edited(chat: &Chat<'_>, ui: &mut Ui, file: &str, text: &str) {
    ui.input(match save(chat, Some(file), text) {
        Ok((file, text)) => Input::Plan { file, text },
        Err(failure) => Input::PlanUnsaved(chat.base.secrets.clean(&failure.message()).into_owned()),
    });
}

/// Opens the plan in a file, or else the latest one, for the external editor. Reports a failure.
pub(super) fn open(ui: &mut Ui, file: Option<String>) {
    let workspace = ui.to.base.workspace.clone();
    let latest = || list_plans(&workspace).into_iter().next().map(|choice| choice.value);
    let opened = match file.or_else(latest) {
        Some(file) => {
            let file = PlanFile::new(&workspace, Path::new(&file));
            file.source().map(|text| (file.shown, text))
        }
        None => Err(Failure::usage(format!("there is no plan in `{DIRECTORY}`")).hint("`/plan TASK` writes one")),
    };
    match opened {
        Ok((file, text)) => ui.input(Input::OpenedPlan { file, text }),
        Err(failure) => ui.to.said.failure(&failure),
    }
}

/// Executes the unfinished steps of a plan in a new session. Reports a failure.
pub(super) async fn execute(chat: &mut Chat<'_>, ui: &mut Ui, file: &str) -> Result<()> {
    let file = PlanFile::new(&chat.base.workspace, Path::new(file));
    let title = match file.read() {
        Err(failure) => {
            report(chat, &failure);
            return Ok(());
        }
        Ok((_, plan)) if plan.next_step().is_none() => {
            let steps = count(plan.steps.len() as u64, "step");
            chat.write_line(&text!("nothing to do: all {} of `{}` are done", steps, file.shown));
            return Ok(());
        }
        Ok((_, plan)) => chat.base.secrets.clean(&plan.title).into_owned(),
    };
    chat.perform(vec![HostAction::NewSession]).await;
    chat.write_line(&text!("executing the plan `{}`", file.shown));
    // Otherwise the new session would be shown after the first events of its runs, and hide them.
    ui.show_output();
    let agent = chat.ready.agent.clone();
    let mut execution = Execution { file: &file, agent: &agent, completed: Vec::new() };
    let (end, _) = ui.during(interruptible_runs(&agent, |interrupted| execution.all(interrupted))).await?;
    match end {
        Ok(RunEnd::Done { .. }) => chat.write_line(&text!("all steps of `{}` are done", file.shown)),
        Ok(end) => report(chat, &Failure::failed(end.to_string()).hint(format!("`/execute {}` continues", file.shown))),
        Err(failure) => report(chat, &failure),
    }
    name_session(chat, &title);
    Ok(())
}

/// Names the session of an execution, whose first prompt is the same for all plans. Ignores errors, because the name is
/// only a convenience.
fn name_session(chat: &Chat<'_>, title: &str) {
    if let Some(session) = &chat.ready.session.on_disk {
        let directory = SessionDirectory::new(chat.base.paths.sessions());
        let _ = directory.rename(session.path(), &format!("plan: {title}"));
    }
}

fn report(chat: &Chat<'_>, failure: &Failure) {
    if let Voice::Screen(said) = &chat.voice {
        said.failure(failure);
    }
}
