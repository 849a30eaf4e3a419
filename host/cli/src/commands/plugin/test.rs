//! `pinion plugin test`: runs the cases in the `tests` directory of a project.
//!
//! Each case runs in the real runtime, in the scripted host of the test kit: with a separate workspace, stored values
//! and conversation, and with the grants, secrets and servers that it names instead of the user's. Another author's
//! project cannot use the user's resources: its cases reach neither a server nor a secret nor a file outside their
//! workspace.

use crate::commands::plugin::build::{self, Destination};
use pinion_app::failure::{Failure, Result, Status};
use pinion_app::workspace_base::Base;
use pinion_console::output::{Text, print, result, text, written};
use pinion_devkit::cases;
use pinion_devkit::steps::Steps;
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
    let cases = cases::read(&base.workspace.join(directory).join("tests"))?;
    let component = match is_built {
        true => build::existing(base, directory)?,
        false => build::build(base, directory, Destination::Project, Steps::IfChanged).await?.file,
    };
    let host = cases::host(base);
    let (mut passed, mut failed, mut results) = (0_usize, 0_usize, Vec::new());
    for case in cases.iter().filter(|case| only.is_none_or(|part| case.name.contains(part))) {
        let (problem, time_us) = cases::run(&component, case, &host, &*base.screen).await;
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
