//! `pinion sandbox`: the sandbox of programs, from outside of a conversation.

use clap::Args;
use pinion_app::config::plugin_secrets::SecretOrigin;
use pinion_app::config::sandbox::CommandGrants;
use pinion_app::failure::{Failure, Result};
use pinion_app::process::confinement::{Planned, SandboxedPrograms};
use pinion_app::process::hardening;
use pinion_app::process::key_commands::KeyCommandSandbox;
use pinion_app::process::network::ProgramProxy;
use pinion_app::workspace_base::Base;
use pinion_console::invocation::Invocation;
use pinion_console::output::{Text, bytes, note, print, text};
use pinion_egress::HostRule;
use pinion_exclusions::ExcludedPlace;
use pinion_sandbox::{Network, Program, ResourceLimits, SandboxPolicy, Support};
use std::path::PathBuf;
use std::process::{Command, ExitStatus};

/// The arguments of `pinion sandbox`.
#[derive(Debug, Args)]
pub(crate) struct Sandbox {
    /// Show the layers and the paths instead of running a command
    #[arg(long, conflicts_with = "command")]
    status: bool,
    /// Let the command reach a host, in addition to the config (repeatable)
    #[arg(long, value_name = "HOST")]
    net: Vec<HostRule>,
    /// Command to run as the agent would run it, in the workspace
    #[arg(value_name = "COMMAND", last = true, required_unless_present = "status")]
    command: Vec<String>,
}

impl Sandbox {
    pub(crate) async fn run(self, invocation: &Invocation) -> Result<()> {
        let base = invocation.base()?;
        for rule in self.net {
            base.network.allow(rule).map_err(Failure::usage)?;
        }
        let Some(programs) = base.sandbox() else {
            let off = Failure::failed("the sandbox is off");
            return Err(off.hint("remove `mode = \"off\"` of `[sandbox]` from the config"));
        };
        let missing = |error: String| Failure::failed(error);
        let [program, arguments @ ..] = self.command.as_slice() else {
            let Planned { policy, found, .. } = programs.policy(base.output.directory()).map_err(missing)?;
            let hosts: Vec<String> = base.network.rules().iter().map(ToString::to_string).collect();
            let support = programs.support(&policy).map_err(missing)?;
            let mut lines = status(&policy, &hosts, support);
            let is_inserted = policy.network == Network::Proxied && support.namespaces.is_ok();
            for credential in base.network.credentials().lines() {
                let state = if is_inserted { "" } else { " (off: needs allowed hosts)" };
                lines.line(text!("credential  {}{}", credential, state));
            }
            key_commands(&base).into_iter().for_each(|line| lines.line(line));
            for ExcludedPlace { path, pattern, .. } in &found.places {
                lines.line(text!("excluded    {} (`{}`)", path, pattern.text()));
            }
            programs.gap(&policy).into_iter().for_each(|gap| lines.line(text!("{}", gap)));
            return print(&lines);
        };
        let status = run_program(&base, &programs, program, arguments, |_| ()).await?;
        match status.success() {
            true => Ok(()),
            false => Err(Failure::failed(format!("`{program}` failed: {status}"))),
        }
    }
}

/// Runs a program in the sandbox, in the workspace of `base`, and returns its exit status. `set_streams` gets the command
/// before it starts.
pub(super) async fn run_program(
    base: &Base,
    programs: &SandboxedPrograms,
    name: &str,
    arguments: &[String],
    set_streams: impl FnOnce(&mut Command),
) -> Result<ExitStatus> {
    let environment = environment(base);
    let program = Program { program: name, arguments, directory: &base.workspace, environment: &environment };
    let prepared = programs.prepare(program, base.output.directory()).map_err(Failure::failed)?;
    let (mut command, proxy, running) = (prepared.command, prepared.proxy, prepared.running);
    prepared.out_of_reach.into_iter().for_each(|reason| note(&text!("{}", reason)));
    set_streams(&mut command);
    let ended = tokio::task::spawn_blocking(move || command.status()).await;
    running.revert().iter().for_each(|line| note(&text!("{}", line)));
    let status = ended.map_err(|error| Failure::failed("could not wait").because(error))?;
    let status = status.map_err(|error| Failure::failed(format!("could not run `{name}`")).because(error))?;
    proxy.iter().flat_map(ProgramProxy::lines).for_each(|refused| note(&text!("{}", refused)));
    Ok(status)
}

/// Describes the grants of the commands that print keys and secrets.
fn key_commands(base: &Base) -> Vec<Text> {
    let sandbox = KeyCommandSandbox::new(&base.config.sandbox, &base.paths, &base.permissions.audit);
    let providers = base.config.providers.iter().filter(|(_, said)| said.key_command.is_some());
    let providers = providers.map(|(name, said)| (format!("[providers.{name}]"), &said.key_command_grants));
    let secrets = base.config.secrets.iter().filter_map(|(name, secret)| match &secret.origin {
        SecretOrigin::Command(_, grants) => Some((format!("[secrets.{name}]"), grants)),
        SecretOrigin::Variable(_) | SecretOrigin::AuthFile => None,
    });
    let line =
        |(section, grants): (String, &CommandGrants)| text!("key command of {}: {}", section, sandbox.describe(grants));
    providers.chain(secrets).map(line).collect()
}

/// Returns the variables that a program of the agent gets.
pub(super) fn environment(base: &Base) -> Vec<(String, String)> {
    let names = &base.config.process_environment;
    let is_passed = |variable: &str| {
        names.iter().any(|name| name.strip_suffix('*').map_or(variable == name, |start| variable.starts_with(start)))
    };
    hardening::variables().into_iter().filter(|(name, _)| is_passed(name)).collect()
}

/// Describes the limits of one program, and those that are missing.
fn limits(limits: &ResourceLimits, group: &Result<(), String>) -> String {
    let processes = format!("{} processes", limits.processes);
    match (group, limits.memory_bytes) {
        (Ok(()), Some(bytes_of_memory)) => format!("{processes}, {} of memory", bytes(bytes_of_memory)),
        (Ok(()), None) => processes,
        (Err(reason), _) => format!("{processes}, no limit on memory: {reason}"),
    }
}

fn status(policy: &SandboxPolicy, hosts: &[String], support: &Support) -> Text {
    let mut lines = Text::default();
    let yes = |is: bool| if is { "yes" } else { "no" };
    let landlock = support.landlock.map_or("no".to_owned(), |version| format!("version {version}"));
    let namespaces = match &support.namespaces {
        Ok(()) => "yes".to_owned(),
        Err(reason) => format!("no: {reason}"),
    };
    let network = match policy.network {
        Network::Off => "off".to_owned(),
        Network::Proxied if support.namespaces.is_err() => "off: allowed hosts need namespaces".to_owned(),
        Network::Proxied => hosts.join(", "),
        Network::On => "on".to_owned(),
    };
    lines.line(text!("landlock    {}", landlock));
    lines.line(text!("seccomp     {}", yes(support.seccomp)));
    lines.line(text!("namespaces  {}", namespaces));
    lines.line(text!("network     {}", network));
    lines.line(text!("limits      {}", limits(&policy.limits, &support.group)));
    let exists = |path: &&PathBuf| path.exists();
    let lists = [("writable", &policy.writable), ("read-only", &policy.read_only), ("hidden", &policy.hidden)];
    for (name, paths) in lists {
        for path in paths.iter().filter(exists) {
            lines.line(text!("{} {}", format!("{name:<11}"), path));
        }
    }
    lines
}
