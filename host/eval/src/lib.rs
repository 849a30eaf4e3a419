//! Evaluation of agents.
//!
//! A [set](case::EvaluationSet) of cases is [loaded](load) from a YAML or TOML file. The [runner] works on each trial in
//! a separate copy of the workspace. The [engine](engine::TrialEngine) is a port: the command runs agents in processes,
//! a test scripts them. A trial leaves a [trajectory], and [evaluators] compare it and the files with the expectations
//! of the case. The [result](result::SetResult) sums the trials up, with an interval of confidence from [statistics].
//!
//! This crate prints nothing and parses no command line.

pub mod attacks;
pub mod audit;
pub mod case;
pub mod compare;
pub mod engine;
pub mod error;
pub mod evaluators;
pub mod files;
pub mod gate;
pub mod load;
mod meter;
pub mod phrasings;
pub mod record;
pub mod report;
pub mod result;
pub mod runner;
pub mod statistics;
pub mod store;
pub mod trajectory;
pub mod workspace;
mod yaml;

/// Tasks and results of Harbor, which runs evaluations on many machines.
pub mod harbor {
    mod export;
    mod import;
    mod verifier;

    pub use self::export::{ExportedTasks, export_tasks};
    pub use self::import::import_job;
}

pub use error::EvalError;
