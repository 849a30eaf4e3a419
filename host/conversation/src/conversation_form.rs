//! The form of conversations: the full screen, inline, line by line, or linear.

use pinion_app::config::Config;
use pinion_app::failure::{Failure, Result};
use pinion_app::options::UiForm;
use pinion_console::args::{RunArgs, UI_FORMS, by_name};
use pinion_console::output::terminal;

/// Environment variable with the name of a form.
const VARIABLE: &str = "PINION_UI";

/// Returns the form of a conversation: from `--ui` or `--inline`, or else from `PINION_UI`, or else from the config. A
/// terminal that cannot move its cursor gets lines instead of the full screen and of the inline form.
///
/// # Errors
/// `PINION_UI` names no form.
pub(crate) fn of_conversation(args: &RunArgs, config: &Config) -> Result<UiForm> {
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
