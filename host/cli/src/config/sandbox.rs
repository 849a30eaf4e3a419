//! The section `[sandbox]`: the operating system's protection around programs.

use crate::args::{RunArgs, SandboxMode};
use crate::failure::{Failure, Result};
use crate::files::paths;
use pinion_egress::HostRule;
use pinion_sandbox::Network;
use serde::Deserialize;
use std::path::PathBuf;

/// The section as a file has it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(crate) struct FileSandbox {
    mode: Option<SandboxMode>,
    network: Option<bool>,
    /// Hosts that programs reach although the network is off.
    hosts: Vec<HostRule>,
    /// Names of secrets that programs use through placeholders.
    credentials: Vec<String>,
    /// Directories that programs may write to besides the workspace.
    writable: Vec<String>,
    /// Paths that programs do not see, besides those of credentials.
    hidden: Vec<String>,
    /// Paths of credentials that programs see all the same.
    readable: Vec<String>,
    /// Processes of one program at a time.
    max_processes: Option<u64>,
    /// MiB of memory of one program with all that it starts.
    max_memory: Option<u64>,
}

/// The settings in effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SandboxSettings {
    pub(crate) mode: SandboxMode,
    /// On or off.
    pub(crate) network: Network,
    /// Hosts of the config and of the command line.
    pub(crate) hosts: Vec<HostRule>,
    /// Names of secrets.
    pub(crate) credentials: Vec<String>,
    pub(crate) writable: Vec<PathBuf>,
    pub(crate) hidden: Vec<PathBuf>,
    pub(crate) readable: Vec<PathBuf>,
    pub(crate) max_processes: Option<u64>,
    /// Bytes.
    pub(crate) max_memory: Option<u64>,
}

impl FileSandbox {
    /// Converts the section.
    ///
    /// # Errors
    /// A path is relative.
    pub(super) fn settings(self, args: &RunArgs) -> Result<SandboxSettings> {
        let mode = if args.no_sandbox { Some(SandboxMode::Off) } else { args.sandbox.or(self.mode) };
        Ok(SandboxSettings {
            mode: mode.unwrap_or_default(),
            network: if self.network == Some(true) { Network::On } else { Network::Off },
            hosts: self.hosts.into_iter().chain(args.net.iter().cloned()).collect(),
            credentials: self.credentials,
            writable: absolute("writable", self.writable)?,
            hidden: absolute("hidden", self.hidden)?,
            readable: absolute("readable", self.readable)?,
            max_processes: self.max_processes,
            max_memory: self.max_memory.map(|mib| mib.saturating_mul(1024 * 1024)),
        })
    }
}

/// Converts paths, in which `~` is the home directory.
fn absolute(key: &str, listed: Vec<String>) -> Result<Vec<PathBuf>> {
    let convert = |path: String| {
        let absolute = match path.strip_prefix("~/") {
            Some(below_home) => paths::home().map(|home| home.join(below_home)),
            None => Some(PathBuf::from(&path)).filter(|path| path.is_absolute()),
        };
        let failed = || Failure::usage(format!("`{path}` in `{key}` of `[sandbox]` is not an absolute path"));
        absolute.ok_or_else(|| failed().hint("begin it with `/` or `~/`"))
    };
    listed.into_iter().map(convert).collect()
}

#[cfg(test)]
impl SandboxSettings {
    /// Reads the section from a text.
    pub(crate) fn of(text: &str, args: &[&str]) -> Self {
        toml::from_str::<FileSandbox>(text).unwrap().settings(&RunArgs::of(args)).unwrap()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(text: &str, args: &[&str]) -> Result<SandboxSettings> {
        toml::from_str::<FileSandbox>(text).unwrap().settings(&RunArgs::of(args))
    }

    #[test]
    fn options_override_the_mode_of_the_config() {
        assert_eq!(settings("", &[]).unwrap().mode, SandboxMode::Require);
        assert_eq!(settings("mode = \"off\"", &["--sandbox", "best-effort"]).unwrap().mode, SandboxMode::BestEffort);
        assert_eq!(settings("mode = \"require\"", &["--no-sandbox"]).unwrap().mode, SandboxMode::Off);
    }

    #[test]
    fn network_is_off_unless_the_config_allows_it() {
        assert_eq!(settings("", &[]).unwrap().network, Network::Off);
        assert_eq!(settings("network = true", &[]).unwrap().network, Network::On);
    }

    #[test]
    fn hosts_of_config_and_command_line_add_up() {
        let found = settings("hosts = [\"crates.io\"]", &["--net", "*.npmjs.org:443"]).unwrap().hosts;
        assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>(), ["crates.io", "*.npmjs.org:443"]);
        let error = toml::from_str::<FileSandbox>("hosts = [\"https://crates.io\"]").unwrap_err().to_string();
        assert!(error.contains("hint: write the host alone"), "{error}");
    }

    #[test]
    fn relative_paths_are_refused_with_the_key() {
        let error = settings("writable = [\"target\"]", &[]).unwrap_err().to_string();
        assert!(error.contains("`target` in `writable`"), "{error}");
        assert!(settings("readable = [\"~/x\", \"/y\"]", &[]).is_ok());
    }
}
