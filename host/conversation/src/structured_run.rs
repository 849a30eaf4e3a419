//! `--output-schema`: a run whose answer is JSON that matches a schema.

use crate::images::with_images_named_in;
use crate::plan::{end_of, total};
use crate::print::{Headless, deny_unattended, fields};
use crate::prompt_input::{naming_text, prompt};
use pinion_app::failure::{Failure, Result};
use pinion_app::files::private::read_file;
use pinion_app::workspace_base::Base;
use pinion_console::args::{GlobalArgs, RunArgs};
use pinion_console::output::{note, text};
use pinion_console::process::signals::interruptible;
use pinion_orchestration::{AnswerError, answer};
use serde_json::{Value, json};
use std::path::Path;

/// Further attempts of a model that gave an invalid answer, or none.
const RETRIES: u32 = 1;
/// Maximum bytes of a schema.
const MAX_SCHEMA: usize = 256 * 1024;

/// Runs the agent until it gives an answer that matches the schema in a file, and prints the answer.
pub(crate) async fn run(base: &Base, args: &RunArgs, global: &GlobalArgs, schema: &Path) -> Result<()> {
    let schema = read_schema(&base.workspace.join(schema))?;
    let prompt = prompt(args, global)?;
    let headless =
        Headless::begin(base, args, global, deny_unattended(base.config.approve, base.permissions.clone())).await?;
    let agent = headless.ready.agent.clone();
    let naming = naming_text(args, &prompt);
    let (message, problems) = with_images_named_in(base, &headless.ready.info.model(), prompt.into(), &naming);
    problems.iter().filter(|_| !global.quiet).for_each(|problem| note(&text!("! {}", problem)));
    let (answered, was_interrupted) = interruptible(&agent, answer(&agent, vec![message], schema, RETRIES)).await;
    let (value, end, said) = match answered {
        Ok(answer) => (Some(answer.value), answer.outcome.end, String::new()),
        Err(AnswerError::Schema(error)) => {
            headless.end().await?;
            return Err(Failure::usage("invalid schema of --output-schema").because(error));
        }
        Err(error) => {
            // The text that the model wrote instead of the answer was paid for.
            let said = if let AnswerError::NoAnswer { text, .. } = &error { text.clone() } else { String::new() };
            (None, end_of(error), said)
        }
    };
    let outcome = total(&agent, end);
    let finished = headless.end().await?;
    let text = match &value {
        Some(value) => base.secrets.clean(&value.to_string()).into_owned(),
        None => String::new(),
    };
    // Parsed from the cleaned text, so that the object contains no secrets either.
    let value = serde_json::from_str::<Value>(&text).unwrap_or_default();
    finished.answer(&text, &outcome, fields([("structured", value)]))?;
    if !said.trim().is_empty() && !global.quiet {
        note(&text!("! the model wrote instead: {}", base.secrets.clean(said.trim()).into_owned()));
    }
    finished.verdict(outcome, was_interrupted)
}

/// Reads a schema, whose root must be an object.
fn read_schema(path: &Path) -> Result<Value> {
    let invalid = |problem: String| {
        Failure::usage(format!("invalid schema `{}` of --output-schema: {problem}", path.display()))
            .hint("its root must be an object, such as {\"type\": \"object\", \"properties\": {\"answer\": {\"type\": \"string\"}}}")
    };
    let bytes = read_file(path)
        .map_err(|error| Failure::usage(format!("could not read the schema `{}`", path.display())).because(error))?;
    if bytes.len() > MAX_SCHEMA {
        return Err(invalid(format!("it has {} bytes, the maximum is {MAX_SCHEMA}", bytes.len())));
    }
    let schema: Value = serde_json::from_slice(&bytes).map_err(|error| invalid(error.to_string()))?;
    match schema.get("type") {
        Some(kind) if *kind == json!("object") => Ok(schema),
        _ => Err(invalid("it does not say `\"type\": \"object\"`".to_owned())),
    }
}
