//! `pinion plugin test --model`: whether models find the tools of a plugin, for requests in several phrasings.

use super::build::{self, Destination};
use crate::commands::eval::{ProcessEngine, ResultFormat, failure, output, report_trial};
use pinion_app::failure::{Failure, Result, Status};
use pinion_app::workspace_base::Base;
use pinion_console::output::{count, note, text};
use pinion_console::process::signals;
use pinion_devkit::steps::Steps;
use pinion_eval::evaluators::EvaluatorRegistry;
use pinion_eval::gate::missed_bounds;
use pinion_eval::phrasings::load_phrasings;
use pinion_eval::result::SetCompletion;
use pinion_eval::runner::{SetOptions, run_set};
use std::path::Path;
use tokio_util::sync::CancellationToken;

/// Name of the file of requests in the directory `tests`.
const REQUESTS: &str = "prompts.yaml";

/// The models, and how they run.
pub(super) struct ModelOptions<'a> {
    pub(super) models: &'a [String],
    /// Number of trials of each phrasing.
    pub(super) trials: u32,
    /// Runs the component of the last build.
    pub(super) is_built: bool,
    pub(super) as_json: bool,
}

pub(super) async fn run(base: &Base, directory: &Path, options: ModelOptions<'_>) -> Result<()> {
    let file = base.workspace.join(directory).join("tests").join(REQUESTS);
    if !file.is_file() {
        return Err(Failure::usage(format!("no file `{}`", file.display()))
            .hint("list requests in it, such as: requests: [{tool: NAME, phrasings: [\"...\", \"...\"]}]"));
    }
    let set = load_phrasings(&file).map_err(failure)?;
    let component = match options.is_built {
        true => build::existing(base, directory)?,
        false => build::build(base, directory, Destination::Project, Steps::IfChanged).await?.file,
    };
    let component = std::path::absolute(&component).unwrap_or(component);
    let engine = ProcessEngine::new()?.with_plugin(component);
    let settings =
        SetOptions { jobs: 1, trials: Some(options.trials), models: options.models.to_vec(), ..SetOptions::default() };
    let (registry, stop) = (EvaluatorRegistry::default(), CancellationToken::new());
    let (interrupt, report) = (stop.clone(), report_trial(options.as_json));
    let work = run_set(&set, &registry, &engine, &settings, &stop, &report);
    let (result, _) = signals::interruptible_by(move || interrupt.cancel(), work).await;
    let missed = missed_bounds(&result);
    let (passed, trials) = (result.sums.passed, result.sums.trials);
    let was_interrupted = result.completion == SetCompletion::Interrupted;
    output(&[result], if options.as_json { ResultFormat::Json } else { ResultFormat::Table })?;
    if was_interrupted {
        return Err(Failure::new(Status::Interrupted, "interrupted"));
    }
    match missed.is_empty() {
        true => {
            note(&text!("the tools were called in {} of {}", passed, count(trials, "trial")));
            Ok(())
        }
        false => Err(Failure::failed(missed.join("; "))
            .hint("improve the descriptions of the tools and their parameters: models choose by them")),
    }
}
