//! `pinion eval canary`: a small set against models or versions, and the drift between them.

use super::engine::ProcessEngine;
use super::format::{ComparisonFormat, output_comparison};
use super::{failure, load, report_trial, show};
use clap::Args;
use pinion_app::failure::{Failure, Result, Status};
use pinion_console::invocation::Invocation;
use pinion_console::output::{count, note, print, text};
use pinion_console::process::signals;
use pinion_eval::compare::{PassChange, compare};
use pinion_eval::evaluators::EvaluatorRegistry;
use pinion_eval::load::load_set;
use pinion_eval::result::{SetCompletion, SetResult};
use pinion_eval::runner::{SetOptions, run_set};
use pinion_eval::store::ResultStore;
use std::path::PathBuf;
use tokio_util::sync::CancellationToken;

/// The arguments of `pinion eval canary`.
#[derive(Debug, Args)]
pub(super) struct CanaryArgs {
    /// File of cases, in YAML or TOML
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Model to try (repeatable) [default: from the file]
    #[arg(short, long = "model", value_name = "[PROVIDER/]MODEL")]
    models: Vec<String>,
    /// Path of another version of pinion to try (repeatable) [default: this one]
    #[arg(long = "program", value_name = "FILE")]
    programs: Vec<PathBuf>,
    /// ID of the result to compare with [default: the first model or version; with one, the last result of the set]
    #[arg(long, value_name = "ID")]
    baseline: Option<String>,
    /// Number of trials of each case [default: from the file]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    trials: Option<u32>,
    /// Number of trials to run at once
    #[arg(short, long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: u16,
    /// Format of the comparisons
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    format: ComparisonFormat,
    /// Exit with 1 if a case became worse or dearer
    #[arg(long)]
    check: bool,
}

/// A model with a version of the program.
struct CanarySubject {
    name: String,
    program: Option<PathBuf>,
    model: Option<String>,
}

impl CanaryArgs {
    pub(super) async fn run(self, invocation: &Invocation, store: &ResultStore) -> Result<()> {
        let (registry, directory) = (EvaluatorRegistry::default(), invocation.workspace()?);
        let set = load_set(&directory.join(&self.file), &registry).map_err(failure)?;
        let subjects = self.subjects();
        let named = self.baseline.as_deref().map(|id| load(store, id)).transpose()?;
        let last = || {
            let (summaries, _) = store.list();
            let last = summaries.into_iter().find(|summary| summary.set == set.id)?;
            load(store, &last.id).ok()
        };
        let mut baseline = match named {
            None if subjects.len() == 1 => last(),
            named => named,
        };
        let (stop, is_quiet) = (CancellationToken::new(), invocation.global.quiet);
        let interrupt = stop.clone();
        let work = async {
            let mut drift = CanaryDrift::default();
            for subject in &subjects {
                let engine = match &subject.program {
                    Some(program) => ProcessEngine::from_program(directory.join(program)),
                    None => ProcessEngine::new()?,
                };
                let options = SetOptions {
                    jobs: usize::from(self.jobs),
                    trials: self.trials,
                    models: subject.model.iter().cloned().collect(),
                    ..SetOptions::default()
                };
                let mut result = run_set(&set, &registry, &engine, &options, &stop, &report_trial(is_quiet)).await;
                store.save(&mut result).map_err(failure)?;
                if result.completion != SetCompletion::Complete {
                    print(&show::table(&result))?;
                    return Err(Failure::new(Status::Limit, "the set was interrupted, or its budget is spent"));
                }
                match &baseline {
                    Some(baseline) => drift.report(baseline, &result, &subject.name, self.format)?,
                    None => {
                        note(&text!("{}: result {} is the baseline", subject.name.as_str(), result.id));
                        baseline = Some(result);
                    }
                }
            }
            Ok(drift)
        };
        let (drift, _) = signals::interruptible_by(move || interrupt.cancel(), work).await;
        let drift: CanaryDrift = drift?;
        match self.check && drift.worse + drift.dearer > 0 {
            true => Err(Failure::failed(format!("{} worse, {} dearer", count(drift.worse, "case"), drift.dearer))),
            false => Ok(()),
        }
    }

    fn subjects(&self) -> Vec<CanarySubject> {
        let or_default = |list: Vec<Option<PathBuf>>| if list.is_empty() { vec![None] } else { list };
        let programs = or_default(self.programs.iter().cloned().map(Some).collect());
        let models = match self.models.is_empty() {
            true => vec![None],
            false => self.models.iter().cloned().map(Some).collect(),
        };
        let mut subjects = Vec::new();
        for program in programs {
            for model in &models {
                let version = program.as_ref().map(|program| program.display().to_string());
                let parts: Vec<String> = version.into_iter().chain(model.clone()).collect();
                let name = if parts.is_empty() { "this version".to_owned() } else { parts.join(" with ") };
                subjects.push(CanarySubject { name, program: program.clone(), model: model.clone() });
            }
        }
        subjects
    }
}

/// The cases that became worse or dearer.
#[derive(Debug, Default)]
struct CanaryDrift {
    worse: u64,
    dearer: u64,
}

impl CanaryDrift {
    fn report(&mut self, before: &SetResult, after: &SetResult, name: &str, format: ComparisonFormat) -> Result<()> {
        let (one, other) = (before.without_only_model(), after.without_only_model());
        let cases = compare(&one, &other);
        let certain = cases.iter().filter(|case| case.is_certain).count() as u64;
        let changed = cases.iter().filter(|case| matches!(case.change, PassChange::Better | PassChange::Worse)).count();
        note(&text!(
            "{}: {} changed against result {}, {} certain",
            name,
            count(changed as u64, "case"),
            before.id,
            certain
        ));
        self.worse += cases.iter().filter(|case| case.change == PassChange::Worse).count() as u64;
        self.dearer += cases.iter().filter(|case| case.is_dearer).count() as u64;
        output_comparison((&one, &other), &cases, format)
    }
}
