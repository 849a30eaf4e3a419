//! `pinion eval`: cases for agents, their trials, and the results.

mod attack;
mod canary;
mod engine;
mod format;
mod harbor;
mod record;
mod show;

use crate::commands::swe_bench::SweBench;
use attack::AttackArgs;
use canary::CanaryArgs;
use clap::{Args, Subcommand};
pub(super) use engine::ProcessEngine;
use format::{ComparisonFormat, output_comparison};
pub(super) use format::{ResultFormat, output};
use harbor::{ExportArgs, ImportArgs};
use pinion_app::failure::{Failure, Result, Status};
use pinion_app::files::paths::Paths;
use pinion_console::invocation::Invocation;
use pinion_console::output::{Text, count, json, note, print, text, written};
use pinion_console::process::signals;
use pinion_eval::EvalError;
use pinion_eval::audit::verify;
use pinion_eval::case::EvaluationSet;
use pinion_eval::compare::{PassChange, compare};
use pinion_eval::evaluators::EvaluatorRegistry;
use pinion_eval::gate::missed_bounds;
use pinion_eval::load::load_set;
use pinion_eval::result::{SetCompletion, SetResult, TrialResult};
use pinion_eval::runner::{SetOptions, run_set};
use pinion_eval::store::ResultStore;
use record::RecordArgs;
use std::collections::HashSet;
use std::path::PathBuf;
use tokio_util::sync::CancellationToken;

/// The arguments of `pinion eval`.
#[derive(Debug, Args)]
pub(crate) struct EvalArgs {
    #[command(subcommand)]
    command: EvalCommand,
}

#[derive(Debug, Subcommand)]
enum EvalCommand {
    /// Run the cases of files, store the results, and check their bounds
    ///
    /// Exits with 1 if a bound is missed, with 3 if the budget of a set is spent, and with 130 if it is interrupted. The
    /// result is stored in each case.
    Run(RunCases),
    /// List stored results, the latest first
    List {
        /// Print the list as JSON
        #[arg(long)]
        json: bool,
    },
    /// Show a stored result
    Show {
        #[command(flatten)]
        which: StoredResult,
        /// Format of the output
        #[arg(long, value_name = "FORMAT", default_value = "table")]
        format: ResultFormat,
    },
    /// Compare two results, case by case: better, worse, dearer
    Compare {
        /// ID of the earlier result
        before: String,
        /// ID of the later result [default: the latest other one of the set]
        after: Option<String>,
        /// Format of the output
        #[arg(long, value_name = "FORMAT", default_value = "table")]
        format: ComparisonFormat,
        /// Print the comparison as JSON, one case per line, like `--format json`
        #[arg(long, conflicts_with = "format")]
        json: bool,
        /// Exit with 1 if a case became worse or dearer
        #[arg(long)]
        check: bool,
    },
    /// Verify that a stored result is unchanged, by its audit trail, and print the trail's digest
    Verify(StoredResult),
    /// Make a case from a session: its prompts, its files, and its work as expectations
    ///
    /// Writes a directory with the case and the files from the start of the session. Prints the file of the case.
    Record(RecordArgs),
    /// Run a small set against models or versions, and report the drift
    ///
    /// The results of all are stored. Without several models or versions, compares with the last result of the set.
    Canary(CanaryArgs),
    /// Try attacks on this installation, with a scripted model and without network
    ///
    /// A scripted model follows instructions from files and output: it reads secrets, leaves the sandbox, connects to a
    /// server and poisons settings. A case passes if its attack ran and no part of the attack succeeded.
    Attack(AttackArgs),
    /// Write the cases of a file as Harbor tasks, to run them on many machines
    Export(ExportArgs),
    /// Store the results of a Harbor job, to show and compare them
    Import(ImportArgs),
    /// Solve the instances of SWE-bench and write predictions for its harness
    SweBench(SweBench),
}

/// The result that a command is about.
#[derive(Debug, Args)]
struct StoredResult {
    /// ID of the result, a unique prefix of it, or the path of its file
    #[arg(value_name = "ID", default_value = "latest")]
    id: String,
}

/// The arguments of `pinion eval run`.
#[derive(Debug, Args)]
struct RunCases {
    /// Files of cases, in YAML or TOML
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Run only this case (repeatable)
    #[arg(long = "case", value_name = "ID")]
    cases: Vec<String>,
    /// Number of trials of each case and model [default: from the file]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    trials: Option<u32>,
    /// Model to evaluate, in place of those in the file (repeatable)
    #[arg(short, long = "model", value_name = "[PROVIDER/]MODEL")]
    models: Vec<String>,
    /// Number of trials to run at once
    #[arg(short, long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: u16,
    /// Keep the workspaces and sessions of the trials in this directory
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Repeat recorded calls with the component in this file, in place of those in the cases
    #[arg(long, value_name = "FILE")]
    with: Option<PathBuf>,
    /// Format of the output
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    format: ResultFormat,
}

impl EvalArgs {
    pub(crate) async fn run(self, invocation: &Invocation) -> Result<()> {
        let store = ResultStore::new(Paths::from_environment()?.evaluations());
        match self.command {
            EvalCommand::Run(arguments) => arguments.run(invocation, &store).await,
            EvalCommand::List { json } => list(&store, json),
            EvalCommand::Show { which, format } => output(&[load(&store, &which.id)?], format),
            EvalCommand::Compare { before, after, format, json, check } => {
                let format = if json { ComparisonFormat::Json } else { format };
                let before = load(&store, &before)?;
                let after = match &after {
                    Some(id) => load(&store, id)?,
                    None => store.load_latest_other(&before).map_err(failure)?,
                };
                if before.set != after.set {
                    note(&text!("! the results are of different sets: {} and {}", before.set, after.set));
                }
                compare_results(&before, &after, format, check)
            }
            EvalCommand::Record(record) => record.run(invocation),
            EvalCommand::Canary(canary) => canary.run(invocation, &store).await,
            EvalCommand::Attack(attack) => attack.run(invocation, &store).await,
            EvalCommand::Export(export) => export.run(invocation),
            EvalCommand::Import(import) => import.run(invocation, &store),
            EvalCommand::SweBench(bench) => bench.run(invocation).await,
            EvalCommand::Verify(which) => verify_result(&load(&store, &which.id)?),
        }
    }
}

/// Turns an error about a file of cases into one of usage, and any other into a failure.
pub(super) fn failure(error: EvalError) -> Failure {
    let status = match &error {
        EvalError::Write { .. } => Status::Failed,
        _ => Status::Usage,
    };
    let failure = Failure::new(status, &error);
    match (&error, std::error::Error::source(&error)) {
        (EvalError::NoResult { .. } | EvalError::NoOtherResult { .. }, _) => {
            failure.hint("`pinion eval list` lists the results")
        }
        (_, Some(source)) => failure.because(source.to_string()),
        (_, None) => failure,
    }
}

fn load(store: &ResultStore, id: &str) -> Result<SetResult> {
    store.load(id).map_err(failure)
}

fn list(store: &ResultStore, as_json: bool) -> Result<()> {
    let (summaries, problems) = store.list();
    for problem in problems {
        note(&text!("! {}", failure(problem).message()));
    }
    if as_json {
        return summaries.iter().try_for_each(|summary| written(json(summary)));
    }
    if summaries.is_empty() {
        note(&text!("no results; `pinion eval run FILE` makes one"));
    }
    let mut lines = Text::default();
    summaries.iter().for_each(|summary| lines.line(show::summary_row(summary)));
    print(&lines)
}

fn compare_results(before: &SetResult, after: &SetResult, format: ComparisonFormat, check: bool) -> Result<()> {
    let cases = compare(before, after);
    output_comparison((before, after), &cases, format)?;
    let worse = cases.iter().filter(|case| case.change == PassChange::Worse).count();
    let dearer = cases.iter().filter(|case| case.is_dearer).count();
    match check && worse + dearer > 0 {
        true => Err(Failure::failed(format!("{} worse, {dearer} dearer", count(worse as u64, "case")))),
        false => Ok(()),
    }
}

fn verify_result(result: &SetResult) -> Result<()> {
    let problems = verify(result);
    match problems.is_empty() {
        true => print(&text!("result {} is unchanged: {}\n", result.id, result.audit.digest)),
        false => Err(Failure::failed(format!("result `{}` was changed: {}", result.id, problems.join("; ")))),
    }
}

/// Returns a function that reports each trial when it ends.
pub(super) fn report_trial(is_quiet: bool) -> impl Fn(&TrialResult) + Send + Sync {
    move |trial: &TrialResult| {
        if !is_quiet && trial.counts() {
            note(&show::progress(trial));
        }
    }
}

impl RunCases {
    async fn run(self, invocation: &Invocation, store: &ResultStore) -> Result<()> {
        let registry = EvaluatorRegistry::default();
        let directory = invocation.workspace()?;
        let files = self.files.iter().map(|file| directory.join(file));
        let sets = files.map(|file| load_set(&file, &registry)).collect::<std::result::Result<Vec<_>, _>>();
        let sets = sets.map_err(failure)?;
        self.check(&sets)?;
        let options = SetOptions {
            jobs: usize::from(self.jobs),
            only: self.cases.clone(),
            trials: self.trials,
            models: self.models.clone(),
            keep: self.keep.as_ref().map(|keep| directory.join(keep)),
            component: self.with.as_ref().map(|file| directory.join(file)),
        };
        let engine = ProcessEngine::new()?;
        let stop = CancellationToken::new();
        let (interrupt, is_quiet) = (stop.clone(), invocation.global.quiet);
        let report = report_trial(is_quiet);
        let work = async {
            let mut results = Vec::new();
            for set in sets.iter().filter(|set| options.only.is_empty() || has_wanted(set, &options.only)) {
                let mut result = run_set(set, &registry, &engine, &options, &stop, &report).await;
                let path = store.save(&mut result).map_err(failure)?;
                if !is_quiet {
                    note(&text!("stored result {} in {}", result.id, path));
                }
                results.push(result);
                if stop.is_cancelled() {
                    break;
                }
            }
            Ok::<_, Failure>(results)
        };
        let (results, _) = signals::interruptible_by(move || interrupt.cancel(), work).await;
        let results = results?;
        output(&results, self.format)?;
        verdict(&results)
    }

    /// Checks that the sets have different ids, and the wanted cases.
    fn check(&self, sets: &[EvaluationSet]) -> Result<()> {
        let mut ids = HashSet::new();
        if let Some(set) = sets.iter().find(|set| !ids.insert(&set.id)) {
            return Err(Failure::usage(format!("two files have a set `{}`", set.id)));
        }
        let has = |id: &String| sets.iter().any(|set| set.cases.iter().any(|case| case.id == *id));
        match self.cases.iter().find(|id| !has(id)) {
            Some(id) => Err(Failure::usage(format!("no file has a case `{id}`"))),
            None => Ok(()),
        }
    }
}

fn has_wanted(set: &EvaluationSet, wanted: &[String]) -> bool {
    set.cases.iter().any(|case| wanted.contains(&case.id))
}

/// Returns the failure of the command for results that are incomplete or miss a bound, with each missed bound.
fn verdict(results: &[SetResult]) -> Result<()> {
    if results.iter().any(|result| result.completion == SetCompletion::Interrupted) {
        return Err(Failure::new(Status::Interrupted, "interrupted; the result has the trials that ended before"));
    }
    if let Some(result) = results.iter().find(|result| result.completion == SetCompletion::BudgetSpent) {
        let message = format!("the budget of the set `{}` is spent", result.set);
        return Err(Failure::new(Status::Limit, message).hint("raise `budget` in the file of the set"));
    }
    let missed = results
        .iter()
        .flat_map(|result| missed_bounds(result).into_iter().map(|bound| format!("set `{}`: {bound}", result.set)));
    let missed: Vec<String> = missed.collect();
    if missed.is_empty() { Ok(()) } else { Err(Failure::failed(missed.join("; "))) }
}
