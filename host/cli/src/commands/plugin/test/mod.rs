//! `pinion plugin test`: runs the cases in the `tests` directory of a project.
//!
//! Each case runs in the real runtime, in the scripted host of the test kit: with a workspace, stored values and a
//! conversation of its own, and with the grants, secrets and servers that it names instead of the user's. A project of
//! others cannot use what its user has: its cases reach neither a server nor a secret nor a file outside their workspace.

mod case;
mod expect;
mod host;
mod script;
mod step;
mod verdict;

use self::case::Case;
use crate::commands::plugin::build::{self, Destination};
use crate::commands::plugin::steps::Steps;
use crate::output::{Text, print, result, text, written};
use pinion_app::base::Base;
use pinion_app::failure::{Failure, Result, Status};
use pinion_plugin_test::{Host, TestError};
use serde_json::json;
use std::path::Path;

/// Selection of cases, and how they run.
pub(crate) struct Options<'a> {
    /// A part of the names of the cases to run.
    pub(crate) only: Option<&'a str>,
    /// Runs the component of the last build.
    pub(crate) is_built: bool,
    pub(crate) as_json: bool,
}

pub(crate) async fn run(base: &Base, directory: &Path, options: Options<'_>) -> Result<()> {
    let Options { only, is_built, as_json } = options;
    let cases = case::read(&base.workspace.join(directory).join("tests"))?;
    let component = match is_built {
        true => build::existing(base, directory)?,
        false => build::build(base, directory, Destination::Project, Steps::IfChanged).await?.file,
    };
    let host = host::host(base);
    let (mut passed, mut failed, mut results) = (0_usize, 0_usize, Vec::new());
    for case in cases.iter().filter(|case| only.is_none_or(|part| case.name.contains(part))) {
        let (problem, time_us) = one(&component, case, &host).await;
        match &problem {
            None => passed += 1,
            Some(_) => failed += 1,
        }
        if !as_json {
            let mark = if problem.is_none() { "ok    " } else { "FAILED" };
            let problem = problem.as_ref().map(|problem| text!("\n  {}", Text::block(problem))).unwrap_or_default();
            print(&text!("{} {}{}\n", mark, case.name, problem))?;
        }
        results.push(json!({ "name": case.name, "ok": problem.is_none(), "problem": problem, "time_us": time_us }));
    }
    match as_json {
        true => written(result(&json!({ "passed": passed, "failed": failed, "cases": results })))?,
        false => print(&text!("{} passed, {} failed\n", passed, failed))?,
    }
    match (passed, failed) {
        (0, 0) => Err(Failure::usage("no case ran").hint("describe calls in tests/cases.toml")),
        (_, 0) => Ok(()),
        _ => Err(Failure::new(Status::Failed, format!("{failed} of {} cases failed", passed + failed))),
    }
}

/// Runs a case. Returns how it differs from what it expects, and the time of its calls.
async fn one(component: &Path, case: &Case, host: &Host) -> (Option<String>, u64) {
    let running = match step::start(component, case, host).await {
        Ok(running) => running,
        Err(error) => return (Some(error.to_string()), 0),
    };
    let mut time_us = 0;
    for (at, step) in case.steps.iter().enumerate() {
        let ran = step::run(&running, step, at == 0).await;
        let problem = ran.map_or_else(
            |error: TestError| Some(error.to_string()),
            |outcome| {
                time_us += outcome.time_us;
                expect::difference(&step.expected, &outcome, &|path: &str| {
                    running.read(path).map_err(|error| error.to_string())
                })
            },
        );
        if let Some(problem) = problem {
            let place = if at == 0 { String::new() } else { format!("step {at} of `then`: ") };
            return (Some(format!("{place}{problem}")), time_us);
        }
    }
    (None, time_us)
}
