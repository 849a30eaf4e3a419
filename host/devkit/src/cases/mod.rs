//! The cases in the `tests` directory of a project, in the scripted host of the test kit.

mod case;
mod expect;
mod host;
mod script;
mod step;
mod verdict;

pub use self::case::{Case, read};
pub use self::host::host;

use pinion_app::screen::Screen;
use pinion_plugin_test::{Host, TestError};
use std::path::Path;

/// Runs a case. Returns the first difference from its expectations, and the time of its calls.
pub async fn run(component: &Path, case: &Case, host: &Host, screen: &dyn Screen) -> (Option<String>, u64) {
    let running = match step::start(component, case, host).await {
        Ok(running) => running,
        Err(error) => return (Some(error.to_string()), 0),
    };
    let mut time_us = 0;
    for (at, step) in case.steps.iter().enumerate() {
        let ran = step::run(&running, step, at == 0, screen).await;
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
