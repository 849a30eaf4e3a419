//! The import `ui`. The conversation that made the call shows everything.

use super::{MAX_DIALOGS, Ui};
use crate::bindings::pinion::plugin::ui::{self, Block, Severity, UiError};
use crate::calls::state::State;
use pinion_plugin_contract::drawing_blocks;
use pinion_plugin_journal::linker::Linker;
use pinion_protocol::text::{one_line, without_controls};
use pinion_protocol::{Dialog, DialogAnswer, DialogError, DialogForm, DialogKind, DrawnPart, FormSchema, Services};
use wasmtime::component::HasSelf;

/// Bytes and lines of a question.
const MAX_QUESTION: (usize, usize) = (4_000, 60);
/// Characters of a notice, of a segment of the status line, and of an option.
const MAX_NOTICE: usize = 500;
const MAX_STATUS: usize = 40;
const MAX_OPTION: usize = 200;
const MAX_OPTIONS: usize = 100;
/// Bytes of the text that is typed when a dialog opens.
const MAX_INITIAL: usize = 1_000;

pub(crate) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    ui::add_to_linker::<State, HasSelf<State>>(linker, |state| state)
}

impl ui::Host for State {
    async fn notify(&mut self, severity: Severity, message: String) -> wasmtime::Result<()> {
        self.spend_output(message.len())?;
        if let Ok(services) = self.user() {
            let severity = match severity {
                Severity::Info => pinion_protocol::Severity::Info,
                Severity::Warning => pinion_protocol::Severity::Warning,
                Severity::Error => pinion_protocol::Severity::Error,
            };
            services.notify(&self.plugin, severity, &one_line(&without_controls(&message), MAX_NOTICE));
        }
        Ok(())
    }

    async fn status(&mut self, text: Option<String>) -> wasmtime::Result<()> {
        self.spend_output(text.as_ref().map_or(0, String::len))?;
        if let Ok(services) = self.user() {
            let text = text.map(|text| one_line(&without_controls(&text), MAX_STATUS)).filter(|text| !text.is_empty());
            services.status(&self.plugin, text.as_deref());
        }
        Ok(())
    }

    async fn draw_call(&mut self, blocks: Vec<Block>) -> wasmtime::Result<Result<(), UiError>> {
        self.draw(DrawnPart::Call, blocks).await
    }

    async fn draw_result(&mut self, blocks: Vec<Block>) -> wasmtime::Result<Result<(), UiError>> {
        self.draw(DrawnPart::Result, blocks).await
    }

    async fn confirm(&mut self, question: String) -> wasmtime::Result<Result<bool, UiError>> {
        Ok(self.ask(&question, DialogKind::Confirm).await.and_then(|answer| match answer {
            DialogAnswer::Confirmed(is_yes) => Ok(is_yes),
            _ => Err(UiError::Dismissed),
        }))
    }

    async fn select(&mut self, question: String, options: Vec<String>) -> wasmtime::Result<Result<u32, UiError>> {
        let answer = match checked_options(options) {
            Ok(options) => self.ask(&question, DialogKind::Select(options)).await,
            Err(error) => Err(error),
        };
        Ok(answer.and_then(|answer| match answer {
            DialogAnswer::Selected(at) => u32::try_from(at).map_err(|_| UiError::Dismissed),
            _ => Err(UiError::Dismissed),
        }))
    }

    async fn input(&mut self, question: String, initial: Option<String>) -> wasmtime::Result<Result<String, UiError>> {
        let initial = initial.unwrap_or_default();
        if initial.len() > MAX_INITIAL {
            return Ok(Err(invalid(format!("an initial text of {} bytes, of at most {MAX_INITIAL}", initial.len()))));
        }
        let initial = one_line(&without_controls(&initial), MAX_INITIAL);
        let answer = self.ask(&question, DialogKind::Input(initial)).await;
        Ok(answer.and_then(|answer| match answer {
            DialogAnswer::Entered(text) => Ok(text),
            _ => Err(UiError::Dismissed),
        }))
    }

    async fn form(&mut self, question: String, schema: String) -> wasmtime::Result<Result<String, UiError>> {
        Ok(match form_schema(&schema) {
            Ok(form) => self.fill(&question, form).await,
            Err(error) => Err(error),
        })
    }
}

impl State {
    /// Returns the conversation that made the call, if it may use it.
    fn user(&self) -> Result<Services, UiError> {
        self.call.authority.check::<Ui>().map_err(|denied| UiError::Denied(denied.to_string()))?;
        self.call.services.clone().ok_or(UiError::Headless)
    }

    async fn draw(&mut self, part: DrawnPart, blocks: Vec<Block>) -> wasmtime::Result<Result<(), UiError>> {
        self.spend_output(drawing_blocks::bytes(&blocks))?;
        let services = match self.user() {
            Ok(services) => services,
            // No user looks, which is not a failure of the plugin.
            Err(UiError::Headless) => return Ok(Ok(())),
            Err(error) => return Ok(Err(error)),
        };
        let drawn = match drawing_blocks::checked(blocks) {
            Ok(blocks) => services.draw(&self.plugin, part, blocks).await,
            Err(problem) => return Ok(Err(invalid(problem))),
        };
        Ok(if drawn { Ok(()) } else { Err(UiError::Denied("there is no tool call to draw".to_owned())) })
    }

    /// Counts a dialog that may open. Returns the conversation and the question as it is shown.
    pub(crate) fn open_dialog(&mut self, question: &str) -> Result<(Services, String), UiError> {
        let services = self.user()?;
        let (bytes, lines) = MAX_QUESTION;
        if question.trim().is_empty() || question.len() > bytes || question.lines().count() > lines {
            return Err(invalid(format!("the question must have 1 to {bytes} bytes and at most {lines} lines")));
        }
        let dialogs = &mut self.account.capabilities.ui.dialogs;
        if *dialogs >= MAX_DIALOGS {
            return Err(invalid(format!("this call has opened {MAX_DIALOGS} dialogs, the maximum")));
        }
        *dialogs += 1;
        Ok((services, without_controls(question)))
    }

    /// Opens a dialog and waits for its answer.
    async fn ask(&mut self, question: &str, kind: DialogKind) -> Result<DialogAnswer, UiError> {
        let (services, question) = self.open_dialog(question)?;
        let dialog = Dialog { plugin: self.plugin.to_string(), question, kind };
        self.call.deadline.wait_for_person(services.ask(dialog)).await.map_err(unanswered)
    }

    /// Asks for all values of a form at once, again while they do not match its schema. `None` where forms are not
    /// shown.
    async fn fill_at_once(&mut self, question: &str, form: &FormSchema) -> Result<Option<String>, UiError> {
        let mut hint = String::new();
        loop {
            let (services, question) = self.open_dialog(&format!("{question}{hint}"))?;
            let shown = DialogForm { plugin: self.plugin.to_string(), question, schema: form.shown().clone() };
            let Some(answer) = self.call.deadline.wait_for_person(services.fill(shown)).await else {
                self.account.capabilities.ui.give_back();
                return Ok(None);
            };
            match form.values(&answer.map_err(unanswered)?) {
                Ok(values) => return Ok(Some(serde_json::Value::Object(values).to_string())),
                Err(problem) => hint = format!("\n{problem}"),
            }
        }
    }

    /// Asks for the values of a form: at once, or one dialog each.
    pub(crate) async fn fill(&mut self, question: &str, form: FormSchema) -> Result<String, UiError> {
        // A single one is a dialog.
        if form.fields() > 1
            && let Some(values) = self.fill_at_once(question, &form).await?
        {
            return Ok(values);
        }
        let mut filling = form.fill(question);
        while let Some((question, kind)) = filling.next_question() {
            let answer = self.ask(&question, kind).await?;
            filling.answer(answer);
        }
        Ok(serde_json::Value::Object(filling.values()).to_string())
    }
}

fn checked_options(options: Vec<String>) -> Result<Vec<String>, UiError> {
    if options.is_empty() || options.len() > MAX_OPTIONS {
        return Err(invalid(format!("{} options, of 1 to {MAX_OPTIONS}", options.len())));
    }
    let is_sound = |option: &String| !option.trim().is_empty() && option.chars().count() <= MAX_OPTION;
    if !options.iter().all(is_sound) {
        return Err(invalid(format!("an option must have 1 to {MAX_OPTION} characters")));
    }
    Ok(options.iter().map(|option| one_line(&without_controls(option), MAX_OPTION)).collect())
}

/// Parses the schema of a form, which asks for one value at least.
pub(crate) fn form_schema(schema: &str) -> Result<FormSchema, UiError> {
    match FormSchema::parse(schema) {
        Ok(form) if form.fields() == 0 => Err(invalid("the form has no properties".to_owned())),
        Ok(form) => Ok(form),
        Err(problem) => Err(invalid(problem)),
    }
}

pub(crate) fn unanswered(error: DialogError) -> UiError {
    match error {
        DialogError::Headless => UiError::Headless,
        DialogError::Dismissed | DialogError::Muted => UiError::Dismissed,
        DialogError::Cancelled => UiError::Cancelled,
    }
}

pub(super) fn invalid(problem: String) -> UiError {
    UiError::Invalid(problem)
}
