//! The part of the application that runs cases: its compiler, its cache of compiled code and its sandbox, without the
//! user's grants, secrets, servers and settings.

use pinion_agent::secrets::Secrets;
use pinion_app::base::Base;
use pinion_app::mcp::lazy::LazyServers;
use pinion_app::options::SandboxMode;
use pinion_app::process::credentials::ProgramCredentials;
use pinion_app::process::network::ProgramNetwork;
use pinion_app::process::own_command::{COMPILE_COMPONENT, guard_command, own_command};
use pinion_app::run::notices::announce_compiling;
use pinion_exclusions::Finder;
use pinion_plugin_runtime::{Compiler, guard_programs};
use pinion_plugin_test::Host;
use pinion_sandbox::Network;
use std::path::Path;
use std::sync::Arc;

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
