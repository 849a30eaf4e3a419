//! `pinion sandbox`: the sandbox of programs, from outside of a conversation.

use crate::base::Base;
use crate::failure::{Failure, Result};
use crate::invocation::Invocation;
use crate::output::{Text, print, text};
use crate::process::hardening;
use clap::Args;
use pinion_sandbox::{Network, Policy, Program, Support};
use std::path::PathBuf;

/// The arguments of `pinion sandbox`.
#[derive(Debug, Args)]
pub(crate) struct Sandbox {
    /// Show the layers and the paths instead of running a command
    #[arg(long, conflicts_with = "command")]
    status: bool,
    /// Command to run as the agent would run it, in the workspace
    #[arg(value_name = "COMMAND", last = true, required_unless_present = "status")]
    command: Vec<String>,
}

impl Sandbox {
    pub(crate) async fn run(self, invocation: &Invocation) -> Result<()> {
        let base = invocation.base()?;
        let Some(programs) = base.sandbox() else {
            let off = Failure::failed("the sandbox is off");
            return Err(off.hint("remove `mode = \"off\"` of `[sandbox]` from the config"));
        };
        let policy = programs.policy(base.output.directory());
        let missing = |error: String| Failure::failed(error);
        let [program, arguments @ ..] = self.command.as_slice() else {
            return print(&status(&policy, programs.support(&policy).map_err(missing)?));
        };
        let environment = environment(&base);
        let program = Program { program, arguments, directory: &base.workspace, environment: &environment };
        let mut command = programs.command(program, &policy).map_err(missing)?;
        let name = program.program;
        let ended = tokio::task::spawn_blocking(move || command.status()).await;
        let status = ended.map_err(|error| Failure::failed("could not wait").because(error))?;
        let status = status.map_err(|error| Failure::failed(format!("could not run `{name}`")).because(error))?;
        match status.success() {
            true => Ok(()),
            false => Err(Failure::failed(format!("`{name}` failed: {status}"))),
        }
    }
}

/// Returns the variables that a program of the agent gets.
fn environment(base: &Base) -> Vec<(String, String)> {
    let names = &base.config.process_environment;
    let is_passed = |variable: &str| {
        names.iter().any(|name| name.strip_suffix('*').map_or(variable == name, |start| variable.starts_with(start)))
    };
    hardening::variables().into_iter().filter(|(name, _)| is_passed(name)).collect()
}

fn status(policy: &Policy, support: &Support) -> Text {
    let mut lines = Text::default();
    let yes = |is: bool| if is { "yes" } else { "no" };
    let landlock = support.landlock.map_or("no".to_owned(), |version| format!("version {version}"));
    let namespaces = match &support.namespaces {
        Ok(()) => "yes".to_owned(),
        Err(reason) => format!("no: {reason}"),
    };
    let network = if policy.network == Network::On { "on" } else { "off" };
    lines.line(text!("landlock    {}", landlock));
    lines.line(text!("seccomp     {}", yes(support.seccomp)));
    lines.line(text!("namespaces  {}", namespaces));
    lines.line(text!("network     {}", network));
    let exists = |path: &&PathBuf| path.exists();
    let lists = [("writable", &policy.writable), ("read-only", &policy.read_only), ("hidden", &policy.hidden)];
    for (name, paths) in lists {
        for path in paths.iter().filter(exists) {
            lines.line(text!("{} {}", format!("{name:<11}"), path));
        }
    }
    lines
}
