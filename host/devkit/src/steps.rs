//! Runs the build steps of a project and shows their output.

use crate::inputs::StepInputsDigest;
use crate::project::Build;
use crate::{link, toolchain};
use pinion_app::failure::{Failure, Result};
use pinion_app::output::text;
use pinion_app::screen::Screen;
use std::ffi::OsString;
use std::path::Path;
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::process::Command;

/// Stands for the name of each interface of the contract that the project's world exports.
const EXPORT: &str = "{export}";

/// When steps run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Steps {
    /// If something changed that they depend on.
    IfChanged,
    /// In any case.
    Always,
}

/// Runs the steps in a directory. All tools are searched before the first step runs.
///
/// # Errors
/// A tool is missing, or a step fails.
pub async fn run(directory: &Path, build: &Build, when: Steps, screen: &dyn Screen) -> Result<()> {
    let exports = || link::contract_exports(&directory.join(&build.wit), build.world.as_deref());
    let steps: Vec<Vec<String>> = build.steps.iter().map(|step| with_exports(step, exports)).collect::<Result<_>>()?;
    let find = |step: &Vec<String>| -> Result<Vec<OsString>> {
        let Some((tool, arguments)) = step.split_first() else {
            return Err(Failure::usage("a step in pinion-plugin.toml has no command"));
        };
        let mut words = toolchain::find(tool, directory)?;
        words.extend(arguments.iter().map(OsString::from));
        Ok(words)
    };
    let commands: Vec<Vec<OsString>> = steps.iter().map(find).collect::<Result<_>>()?;
    let output = directory.join(&build.output);
    let inputs = StepInputsDigest::from_build(directory, build, &commands);
    if when == Steps::IfChanged && inputs.as_ref().is_some_and(|inputs| inputs.is_unchanged(&output)) {
        screen
            .note(&text!("nothing changed since the last build (`pinion plugin build --force` runs the steps again)"));
        return Ok(());
    }
    if let Some(parent) = output.parent() {
        std::fs::create_dir_all(parent)
            .map_err(|error| Failure::failed(format!("could not create `{}`", parent.display())).because(error))?;
    }
    for (words, step) in commands.iter().zip(&steps) {
        screen.note(&text!("$ {}", step.join(" ")));
        one(directory, build, words, step.first().map_or("", String::as_str), screen).await?;
    }
    match output.is_file() {
        true => {
            // Sources that changed meanwhile belong to the next build.
            if let Some(inputs) = &inputs {
                inputs.record(&output);
            }
            Ok(())
        }
        false => Err(Failure::failed(format!("the steps did not write `{}`", output.display()))
            .hint("correct `output` in pinion-plugin.toml")),
    }
}

/// Returns a step with a word for each exported interface in place of those with `{export}`.
fn with_exports(step: &[String], exports: impl Fn() -> Result<Vec<String>>) -> Result<Vec<String>> {
    let mut words = Vec::new();
    for word in step {
        match word.contains(EXPORT) {
            true => words.extend(exports()?.iter().map(|export| word.replace(EXPORT, export))),
            false => words.push(word.clone()),
        }
    }
    Ok(words)
}

/// Runs one step. Dropping the future kills it.
async fn one(directory: &Path, build: &Build, words: &[OsString], tool: &str, screen: &dyn Screen) -> Result<()> {
    let Some((program, arguments)) = words.split_first() else { return Ok(()) };
    let mut command = Command::new(program);
    command.args(arguments).envs(toolchain::environment(directory)).envs(&build.env).current_dir(directory);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let failed = |error: std::io::Error| Failure::failed(format!("could not run `{tool}`")).because(error);
    let mut child = command.spawn().map_err(failed)?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (_, _, status) = tokio::join!(show(stdout, screen), show(stderr, screen), child.wait());
    match status.map_err(failed)? {
        status if status.success() => Ok(()),
        status => Err(Failure::failed(format!("`{tool}` failed: {status}"))),
    }
}

/// Shows the lines of a stream. stdout stays free for the result.
async fn show(stream: Option<impl AsyncRead + Unpin>, screen: &dyn Screen) {
    let Some(stream) = stream else { return };
    let mut lines = BufReader::new(stream).split(b'\n');
    while let Ok(Some(line)) = lines.next_segment().await {
        screen.note(&text!("{}", String::from_utf8_lossy(&line).trim_end()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn word_is_repeated_for_each_export() {
        let words = ["-o", "exports/{export}.c"].map(str::to_owned);
        let made = with_exports(&words, || Ok(vec!["tools".to_owned(), "state".to_owned()])).unwrap();
        assert_eq!(made, ["-o", "exports/tools.c", "exports/state.c"]);
        let unread = with_exports(&words[..1], || Err(Failure::failed("not read"))).unwrap();
        assert_eq!(unread, ["-o"]);
    }
}
