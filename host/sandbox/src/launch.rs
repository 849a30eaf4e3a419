//! Starting programs through the helper.

use crate::error::SandboxError;
use crate::helper::Helper;
use crate::policy::{CheckReport, Enforcement, HelperOutcome, HelperRequest, Layers, SandboxPolicy};
use crate::seatbelt::profile;
use crate::tunnel::ProxySocket;
use crate::tunnel::{CONNECT, connect};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

/// Exit status of a helper that did not start the program.
pub const HELPER_FAILED: u8 = 125;
/// Precedes the names of the program's variables in the helper's environment, so that no variable, such as
/// `LD_PRELOAD`, affects the helper before it is confined.
const VARIABLE: &str = "+";
/// The build of this crate, which a request names: a helper of another one might understand it differently.
const BUILD: &str = env!("PINION_SANDBOX_BUILD");
/// Begins the names of the variables that hold the request, in parts. Arguments would be visible to the program and to all
/// users in `/proc`; the environment of the first process is closed to both.
const REQUEST: &str = "PINION_SANDBOX_REQUEST_";
/// Bytes of one part. Linux limits a variable to 128 KiB.
const PART_BYTES: usize = 100_000;
/// Bytes of the request. All variables and arguments together may take 2 MiB.
const MAX_REQUEST_BYTES: usize = 1024 * 1024;

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
    helper: Helper,
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
    /// A control group limits memory and processes, or the reason why there is no group.
    pub group: Result<(), String>,
}

impl Launcher {
    /// Uses a helper: a program and its first arguments, which the program and its arguments follow. It is refused once its
    /// file has changed.
    pub fn new(helper: PathBuf, arguments: Vec<OsString>) -> Self {
        Self { helper: Helper::new(helper), arguments, layers: Layers::default() }
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
    /// The policy does not fit into an environment, or names a path that is not text.
    pub fn command(&self, program: Program<'_>, policy: &SandboxPolicy) -> Result<Command, SandboxError> {
        if cfg!(target_os = "macos") {
            return seatbelt(program, policy);
        }
        let mut command = self.helper(self.request(program.directory, policy, false))?;
        set(&mut command, program);
        Ok(command)
    }

    /// Like [`command`](Self::command), for a program that reaches a proxy of the caller. The policy must say
    /// [`Proxied`](crate::Network::Proxied), and the layers include namespaces.
    ///
    /// # Errors
    /// As with [`command`](Self::command), or the system has no network namespaces.
    #[cfg(target_os = "linux")]
    pub fn proxied(
        &self,
        program: Program<'_>,
        policy: &SandboxPolicy,
    ) -> Result<(Command, ProxySocket), SandboxError> {
        let failed = |error: std::io::Error| SandboxError::step("create a socket for the proxy", error);
        let (parents, helpers) = std::os::unix::net::UnixStream::pair().map_err(failed)?;
        let mut request = self.request(program.directory, policy, false);
        request.proxy = Some(std::os::fd::AsRawFd::as_raw_fd(&helpers));
        let mut command = self.helper(request)?;
        crate::linux::leave_open(&mut command, helpers);
        set(&mut command, program);
        Ok((command, ProxySocket { socket: parents }))
    }

    /// Returns the command of `ssh` that reaches hosts through the proxy of a [proxied](Self::proxied) program; `None`
    /// if the path of the helper cannot be written in it.
    pub fn ssh(&self) -> Option<String> {
        let words =
            std::iter::once(self.helper.path().as_os_str()).chain(self.arguments.iter().map(OsString::as_os_str));
        let words: Vec<&str> = words.map(OsStr::to_str).collect::<Option<_>>()?;
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+".contains(&byte);
        let helper = words.join(" ");
        let is_sound = words.iter().all(|word| word.bytes().all(is_plain));
        is_sound.then(|| format!("ssh -o 'ProxyCommand={helper} {CONNECT} %h %p'"))
    }

    /// Fails: only Linux has network namespaces.
    ///
    /// # Errors
    /// Always.
    #[cfg(not(target_os = "linux"))]
    pub fn proxied(
        &self,
        _program: Program<'_>,
        _policy: &SandboxPolicy,
    ) -> Result<(Command, ProxySocket), SandboxError> {
        Err(SandboxError::step("connect a program to a proxy", "only Linux has network namespaces"))
    }

    /// Checks which layers work on this machine under a policy, by setting up each without starting a program.
    ///
    /// # Errors
    /// The helper does not start, the layers that the policy requires do not work, or a path of the policy cannot be
    /// enforced with the layers of the machine.
    pub fn support(&self, policy: &SandboxPolicy) -> Result<Support, SandboxError> {
        if cfg!(target_os = "macos") {
            profile(policy).map_err(not_text)?;
            return Ok(Support {
                landlock: None,
                seccomp: false,
                namespaces: Err("macOS has Seatbelt instead".to_owned()),
                group: Err("macOS has none".to_owned()),
            });
        }
        let Layers { namespaces, landlock } = self.layers;
        let mut candidates = vec![self.layers, Layers { namespaces: false, landlock }];
        if policy.enforcement == Enforcement::BestEffort {
            candidates.extend([Layers { namespaces, landlock: false }, Layers { namespaces: false, landlock: false }]);
        }
        // Without the paths of the policy. A file in a stranger's project could otherwise make a layer fail, and programs
        // would go on without it.
        let SandboxPolicy { network, limits, enforcement, .. } = policy.clone();
        let machine = SandboxPolicy { network, limits, enforcement, ..SandboxPolicy::default() };
        let mut missing = (!namespaces).then(|| "not in use".to_owned());
        let mut failure = SandboxError::step("check the sandbox", "no layers are in use");
        for layers in candidates {
            let launcher = self.clone().with_layers(layers);
            match launcher.check(&machine) {
                Ok(_) => {
                    let CheckReport { landlock, seccomp, no_group } = launcher.check(policy)?;
                    let group = if no_group.is_empty() { Ok(()) } else { Err(no_group) };
                    let namespaces = if layers.namespaces { Ok(()) } else { Err(missing.unwrap_or_default()) };
                    return Ok(Support { landlock, seccomp, namespaces, group });
                }
                Err(error) => failure = error,
            }
            // Of all layers, namespaces are missing most often.
            missing.get_or_insert_with(|| first_line(&failure.to_string()));
        }
        Err(failure)
    }

    fn check(&self, policy: &SandboxPolicy) -> Result<CheckReport, SandboxError> {
        let failed = |reason: String| SandboxError::step("check the sandbox", reason);
        let output = self.helper(self.request(Path::new("/"), policy, true))?.stdin(Stdio::null()).output();
        let output = output.map_err(|error| failed(error.to_string()))?;
        if !output.status.success() {
            return Err(SandboxError::Inside(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
        }
        serde_json::from_slice(&output.stderr).map_err(|error| failed(error.to_string()))
    }

    fn request(&self, directory: &Path, policy: &SandboxPolicy, only_check: bool) -> HelperRequest {
        HelperRequest {
            build: BUILD.to_owned(),
            policy: policy.clone(),
            layers: self.layers,
            directory: directory.to_owned(),
            proxy: None,
            only_check,
        }
    }

    fn helper(&self, request: HelperRequest) -> Result<Command, SandboxError> {
        let request = serde_json::to_string(&request).map_err(|error| SandboxError::step("name all paths", error))?;
        if request.len() > MAX_REQUEST_BYTES {
            return Err(SandboxError::TooLong { bytes: request.len(), max: MAX_REQUEST_BYTES });
        }
        let mut command = Command::new(self.helper.unchanged()?);
        command.args(&self.arguments).env_clear();
        command.envs(parts(&request).enumerate().map(|(number, part)| (format!("{REQUEST}{number}"), part)));
        Ok(command)
    }
}

/// Splits a text into parts that fit into variables.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (part, after) = rest.split_at(rest.floor_char_boundary(PART_BYTES));
        rest = after;
        (!part.is_empty()).then_some(part)
    })
}

/// Adds a program to the command of a helper.
fn set(command: &mut Command, program: Program<'_>) {
    command.arg(program.program).args(program.arguments).current_dir(program.directory);
    command.envs(program.environment.iter().map(|(name, value)| (format!("{VARIABLE}{name}"), value)));
}

/// Returns the command that starts a program under a profile of macOS.
fn seatbelt(program: Program<'_>, policy: &SandboxPolicy) -> Result<Command, SandboxError> {
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
/// `arguments` are those after the ones that the [`Launcher`] was given: the program and its own. Must be called before
/// anything starts a thread.
/// `report` writes a message to stderr: of a failure, or the result of a check.
///
/// In the sandbox, the helper also connects `ssh` to the proxy.
pub fn run_for_parent(arguments: impl Iterator<Item = OsString>, report: impl FnOnce(&str)) -> ExitCode {
    let mut arguments = arguments.peekable();
    let has_request = std::env::var_os(format!("{REQUEST}0")).is_some();
    if arguments.next_if(|first| !has_request && first == CONNECT).is_some() {
        return match connect(arguments) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                report(&error);
                ExitCode::FAILURE
            }
        };
    }
    match run(arguments) {
        Ok(HelperOutcome::Ended(code)) => code,
        Ok(HelperOutcome::Checked(checked)) => {
            report(&serde_json::to_string(&checked).unwrap_or_default());
            ExitCode::SUCCESS
        }
        Err(error) => {
            report(&error.to_string());
            ExitCode::from(HELPER_FAILED)
        }
    }
}

fn run(mut arguments: impl Iterator<Item = OsString>) -> Result<HelperOutcome, SandboxError> {
    let invalid = |reason: &str| SandboxError::step("read the request", reason);
    let request: String = (0..).map_while(|number| std::env::var(format!("{REQUEST}{number}")).ok()).collect();
    let request: HelperRequest = serde_json::from_str(&request).map_err(|error| invalid(&error.to_string()))?;
    if request.build != BUILD {
        return Err(invalid(
            "it is of another build of pinion\nhint: install or build `pinion` and `pinion-sandbox` together",
        ));
    }
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

/// Returns the path of a program, looked up in `PATH` of its environment. The standard library starts a program faster
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

/// Returns the path of the temporary directory as the program sees it.
fn temporary(request: &HelperRequest) -> &OsStr {
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
fn enter(request: &HelperRequest, program: Option<Command>) -> Result<HelperOutcome, SandboxError> {
    crate::linux::enter(request, program)
}

#[cfg(not(target_os = "linux"))]
fn enter(_request: &HelperRequest, _program: Option<Command>) -> Result<HelperOutcome, SandboxError> {
    Err(SandboxError::Layer {
        layer: "a sandbox for this operating system",
        reason: "only Linux and macOS have one".to_owned(),
        remedy: "use WSL 2, or run without a sandbox: `mode = \"off\"` in `[sandbox]`, or `--no-sandbox`",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_request_fit_into_variables() {
        let text = "a".repeat(PART_BYTES - 1) + &"ä".repeat(PART_BYTES);
        assert!(parts(&text).all(|part| part.len() <= PART_BYTES));
        assert_eq!(parts(&text).collect::<String>(), text);
        assert_eq!(parts("").count(), 0);
    }

    #[test]
    fn ssh_is_led_to_the_proxy_if_the_path_of_the_helper_is_plain() {
        let launcher = |path: &str| Launcher::new(path.into(), vec!["run-in-sandbox".into()]);
        let expected = "ssh -o 'ProxyCommand=/usr/bin/pinion run-in-sandbox connect-through-proxy %h %p'";
        assert_eq!(launcher("/usr/bin/pinion").ssh().as_deref(), Some(expected));
        assert_eq!(launcher("/home/a b/pinion").ssh(), None);
    }

    #[test]
    fn request_that_is_too_long_for_variables_is_refused() {
        let launcher = Launcher::new(std::env::current_exe().unwrap(), Vec::new());
        let hides = |paths: usize| {
            let hidden = vec![PathBuf::from("/".to_owned() + &"a".repeat(1023)); paths];
            launcher.helper(launcher.request(
                Path::new("/"),
                &SandboxPolicy { hidden, ..SandboxPolicy::default() },
                true,
            ))
        };
        assert!(hides(900).is_ok());
        assert!(matches!(hides(1100), Err(SandboxError::TooLong { max: MAX_REQUEST_BYTES, .. })));
    }
}
