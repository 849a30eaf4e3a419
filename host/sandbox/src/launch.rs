//! Starting programs through the helper.

use crate::error::SandboxError;
use crate::policy::{Enforcement, Layers, Policy};
use crate::request::{Outcome, Report, Request};
use crate::seatbelt::profile;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

/// Exit status of a helper that did not start the program.
pub const HELPER_FAILED: u8 = 125;
/// Precedes the names of the program's variables in the helper's environment, so that none, such as `LD_PRELOAD`, affects
/// the helper before it is confined.
const VARIABLE: &str = "+";
/// Bytes of the request. Linux limits one argument to 128 KiB.
const MAX_REQUEST_BYTES: usize = 120 * 1024;

/// A program to start.
#[derive(Debug, Clone, Copy)]
pub struct Program<'a> {
    /// A path, or a name that is looked up in `PATH` of `environment`.
    pub program: &'a str,
    /// Its arguments.
    pub arguments: &'a [String],
    /// Its working directory.
    pub directory: &'a Path,
    /// Its whole environment.
    pub environment: &'a [(String, String)],
}

/// Starts programs in sandboxes.
#[derive(Debug, Clone)]
pub struct Launcher {
    /// The program that calls [`run_for_parent`].
    helper: PathBuf,
    /// Its arguments.
    arguments: Vec<OsString>,
    layers: Layers,
}

/// The layers of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Support {
    /// The version of Landlock.
    pub landlock: Option<u32>,
    /// System calls can be filtered.
    pub seccomp: bool,
    /// Namespaces, or the reason why they are missing.
    pub namespaces: Result<(), String>,
}

impl Launcher {
    /// Uses a helper: a program and its first arguments, after which the request follows.
    pub fn new(helper: PathBuf, arguments: Vec<OsString>) -> Self {
        Self { helper, arguments, layers: Layers::default() }
    }

    /// Uses only some layers.
    #[must_use]
    pub fn with_layers(mut self, layers: Layers) -> Self {
        self.layers = layers;
        self
    }

    /// Returns the command that starts a program under a policy. The caller decides on its streams and its process group.
    ///
    /// # Errors
    /// The policy does not fit into an argument, or names a path that is not text.
    pub fn command(&self, program: Program<'_>, policy: &Policy) -> Result<Command, SandboxError> {
        if cfg!(target_os = "macos") {
            return seatbelt(program, policy);
        }
        let mut command = self.helper(program.directory, policy, false)?;
        command.arg(program.program).args(program.arguments).current_dir(program.directory);
        command.envs(program.environment.iter().map(|(name, value)| (format!("{VARIABLE}{name}"), value)));
        Ok(command)
    }

    /// Checks which layers work on this machine under a policy, by setting up each without starting a program.
    ///
    /// # Errors
    /// The helper does not start, or the layers that the policy requires do not work.
    pub fn support(&self, policy: &Policy) -> Result<Support, SandboxError> {
        if cfg!(target_os = "macos") {
            profile(policy).map_err(not_text)?;
            return Ok(Support {
                landlock: None,
                seccomp: false,
                namespaces: Err("macOS has Seatbelt instead".to_owned()),
            });
        }
        let Layers { namespaces, landlock } = self.layers;
        let mut candidates = vec![self.layers, Layers { namespaces: false, landlock }];
        if policy.enforcement == Enforcement::BestEffort {
            candidates.extend([Layers { namespaces, landlock: false }, Layers { namespaces: false, landlock: false }]);
        }
        let mut missing = (!namespaces).then(|| "not in use".to_owned());
        let mut failure = SandboxError::step("check the sandbox", "no layers are in use");
        for layers in candidates {
            match self.clone().with_layers(layers).check(policy) {
                Ok(Report { landlock, seccomp }) => {
                    let namespaces = if layers.namespaces { Ok(()) } else { Err(missing.unwrap_or_default()) };
                    return Ok(Support { landlock, seccomp, namespaces });
                }
                Err(error) => failure = error,
            }
            // Of all layers, namespaces are missing most often.
            missing.get_or_insert_with(|| first_line(&failure.to_string()));
        }
        Err(failure)
    }

    fn check(&self, policy: &Policy) -> Result<Report, SandboxError> {
        let failed = |reason: String| SandboxError::step("check the sandbox", reason);
        let output = self.helper(Path::new("/"), policy, true)?.stdin(Stdio::null()).output();
        let output = output.map_err(|error| failed(error.to_string()))?;
        if !output.status.success() {
            return Err(SandboxError::Inside(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
        }
        serde_json::from_slice(&output.stderr).map_err(|error| failed(error.to_string()))
    }

    fn helper(&self, directory: &Path, policy: &Policy, only_check: bool) -> Result<Command, SandboxError> {
        let request =
            Request { policy: policy.clone(), layers: self.layers, directory: directory.to_owned(), only_check };
        let request = serde_json::to_string(&request).map_err(|error| SandboxError::step("name all paths", error))?;
        if request.len() > MAX_REQUEST_BYTES {
            return Err(SandboxError::TooLong { bytes: request.len(), max: MAX_REQUEST_BYTES });
        }
        let mut command = Command::new(&self.helper);
        command.args(&self.arguments).arg(request).env_clear();
        Ok(command)
    }
}

/// Returns the command that starts a program under a profile of macOS.
fn seatbelt(program: Program<'_>, policy: &Policy) -> Result<Command, SandboxError> {
    let mut command = Command::new("/usr/bin/sandbox-exec");
    command.arg("-p").arg(profile(policy).map_err(not_text)?).arg(program.program).args(program.arguments);
    command.current_dir(program.directory).env_clear();
    command.envs(program.environment.iter().map(|(name, value)| (name, value)));
    if let Some(directory) = &policy.temporary {
        command.env("TMPDIR", directory);
    }
    Ok(command)
}

fn not_text(path: PathBuf) -> SandboxError {
    SandboxError::step(format!("name `{}`", path.display()), "the path is not plain text")
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

/// Performs the work of the helper: confines this process as `arguments` say, and becomes the program or waits for it.
/// `arguments` are those after the ones that the [`Launcher`] was given. Must be called before anything starts a thread.
/// `report` writes a message to stderr: of a failure, or the result of a check.
pub fn run_for_parent(arguments: impl Iterator<Item = OsString>, report: impl FnOnce(&str)) -> ExitCode {
    match run(arguments) {
        Ok(Outcome::Ended(code)) => code,
        Ok(Outcome::Checked(checked)) => {
            report(&serde_json::to_string(&checked).unwrap_or_default());
            ExitCode::SUCCESS
        }
        Err(error) => {
            report(&error.to_string());
            ExitCode::from(HELPER_FAILED)
        }
    }
}

fn run(mut arguments: impl Iterator<Item = OsString>) -> Result<Outcome, SandboxError> {
    let invalid = |reason: &str| SandboxError::step("read the request", reason);
    let request = arguments.next().and_then(|request| request.into_string().ok()).ok_or_else(|| invalid("none"))?;
    let request: Request = serde_json::from_str(&request).map_err(|error| invalid(&error.to_string()))?;
    let program = match request.only_check {
        true => None,
        false => {
            let name = arguments.next().ok_or_else(|| invalid("no program"))?;
            let mut command = Command::new(found(&name));
            set_first_argument(&mut command, &name);
            command.args(arguments).env_clear().envs(variables());
            if request.policy.temporary.is_some() {
                command.env("TMPDIR", temporary(&request));
            }
            Some(command)
        }
    };
    enter(&request, program)
}

/// Returns the path of a program, as `PATH` of its own environment leads to it. The standard library starts a program faster
/// if it has nothing to look up.
fn found(name: &OsStr) -> PathBuf {
    let path = variables().find(|(name, _)| name == "PATH").map(|(_, path)| path).unwrap_or_default();
    let is_name = !name.as_encoded_bytes().contains(&b'/');
    let mut candidates = std::env::split_paths(&path).map(|directory| directory.join(name));
    candidates.find(|candidate| is_name && candidate.is_file()).unwrap_or_else(|| PathBuf::from(name))
}

#[cfg(unix)]
fn set_first_argument(command: &mut Command, name: &OsStr) {
    std::os::unix::process::CommandExt::arg0(command, name);
}

#[cfg(not(unix))]
fn set_first_argument(_command: &mut Command, _name: &OsStr) {}

/// Returns the path under which the program finds its temporary directory.
fn temporary(request: &Request) -> &OsStr {
    match (&request.policy.temporary, request.layers.namespaces) {
        (Some(directory), false) => directory.as_os_str(),
        _ => OsStr::new("/tmp"),
    }
}

/// Returns the variables of the program.
fn variables() -> impl Iterator<Item = (OsString, OsString)> {
    std::env::vars_os().filter_map(|(name, value)| {
        let name = name.to_str()?.strip_prefix(VARIABLE)?;
        Some((OsString::from(name), value))
    })
}

#[cfg(target_os = "linux")]
fn enter(request: &Request, program: Option<Command>) -> Result<Outcome, SandboxError> {
    crate::linux::enter(request, program)
}

#[cfg(not(target_os = "linux"))]
fn enter(_request: &Request, _program: Option<Command>) -> Result<Outcome, SandboxError> {
    Err(SandboxError::Layer {
        layer: "a sandbox for this operating system",
        reason: "only Linux and macOS have one".to_owned(),
        remedy: "use WSL 2, or run without a sandbox: `mode = \"off\"` in `[sandbox]`, or `--no-sandbox`",
    })
}
