//! The cases in the `tests` directory of a project, in the scripted host of the test kit.

pub use self::case::{Case, read};
use pinion_agent::secrets::Secrets;
use pinion_app::mcp::lazy_servers::LazyServers;
use pinion_app::options::SandboxMode;
use pinion_app::process::credentials::ProgramCredentials;
use pinion_app::process::network::ProgramNetwork;
use pinion_app::process::own_command::{COMPILE_COMPONENT, guard_command, own_command};
use pinion_app::run::notices::announce_compiling;
use pinion_app::screen::Screen;
use pinion_app::workspace_base::Base;
use pinion_exclusions::Finder;
use pinion_plugin_runtime::{Compiler, guard_programs};
use pinion_plugin_test::{Host, TestError};
use pinion_sandbox::Network;
use std::path::Path;
use std::sync::Arc;

mod case;
mod expect;
mod script;
mod step;
mod verdict;

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

/// Returns the host of all cases.
pub fn host(base: &Base) -> Host {
    if let Some((program, arguments)) = guard_command(&base.paths.removed()) {
        guard_programs(program, arguments);
    }
    let (base, screen) = (base.clone(), base.screen.clone());
    Host {
        cache: base.compiled_code(),
        compiler: own_command(COMPILE_COMPONENT).map(|(program, arguments)| Compiler { program, arguments }),
        engine_limits: base.config.engine_limits.clone(),
        on_notice: Some(Arc::new(move |notice| announce_compiling(&*screen, &notice))),
        confinement: Some(Arc::new(move |workspace| alone(&base, workspace).confinement())),
    }
}

/// Returns the same base without the user's permissions for programs: they get no network and no credentials, and write
/// only to the workspace.
fn alone(base: &Base, workspace: &Path) -> Base {
    let mut alone =
        Base { workspace: workspace.to_owned(), mcp: Arc::new(LazyServers::new(base.screen.clone())), ..base.clone() };
    let config = &mut alone.config;
    // A user who turned the sandbox off trusts the programs of a conversation, but not the programs of a project's
    // tests.
    if config.sandbox.mode == SandboxMode::Off {
        config.sandbox.mode = SandboxMode::BestEffort;
    }
    config.sandbox.network = Network::Off;
    config.sandbox.hosts.clear();
    config.sandbox.credentials.clear();
    config.sandbox.writable.clear();
    config.sandbox.readable.clear();
    config.credentials.clear();
    // Patterns are for the user's workspace.
    config.exclusions = Arc::new(Finder::default());
    config.denied.unwritten = Arc::new(Finder::default());
    config.denied.problem = None;
    let credentials = ProgramCredentials::new(Vec::new(), base.plugin_secrets.clone());
    let audit = base.permissions.audit.clone();
    alone.network = Arc::new(ProgramNetwork::new(&config.sandbox, config.denied.hosts.clone(), credentials, audit));
    alone.secrets = Secrets::default();
    alone
}
