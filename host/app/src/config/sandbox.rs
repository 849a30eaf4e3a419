//! The section `[sandbox]`: the operating system's protection around programs; and the grants of one command.

use crate::files::paths;
use crate::options::{RunOptions, SandboxMode};
use pinion_egress::HostRule;
use pinion_sandbox::Network;
use serde::Deserialize;
use std::path::{Component, Path, PathBuf};

/// The section as a file has it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct FileSandbox {
    mode: Option<SandboxMode>,
    network: Option<bool>,
    /// Hosts that programs reach although the network is off.
    hosts: Vec<HostRule>,
    /// Names of secrets that programs use through placeholders.
    credentials: Vec<String>,
    /// Directories that programs may write to besides the workspace.
    writable: Vec<AbsolutePath>,
    /// Paths that programs do not see, besides the paths of credentials.
    hidden: Vec<AbsolutePath>,
    /// Paths of credentials that programs see all the same.
    readable: Vec<AbsolutePath>,
    /// Devices that programs may use, such as a GPU.
    devices: Vec<Devices>,
    /// Processes of one program at a time.
    max_processes: Option<u64>,
    /// MiB of memory of one program with all that it starts.
    max_memory: Option<u64>,
}

/// The settings in effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxSettings {
    /// Whether programs run confined.
    pub mode: SandboxMode,
    /// On or off.
    pub network: Network,
    /// Hosts of the config and of the command line.
    pub hosts: Vec<HostRule>,
    /// Names of secrets.
    pub credentials: Vec<String>,
    /// Directories that programs may write, besides the workspace.
    pub writable: Vec<PathBuf>,
    /// Paths that programs cannot see.
    pub hidden: Vec<PathBuf>,
    /// Paths that programs may read although they are hidden otherwise.
    pub readable: Vec<PathBuf>,
    devices: Vec<Devices>,
    pub(crate) max_processes: Option<u64>,
    /// Bytes.
    pub max_memory: Option<u64>,
}

impl FileSandbox {
    /// Converts the section.
    pub(super) fn settings(self, options: &RunOptions) -> SandboxSettings {
        let mode = if options.no_sandbox { Some(SandboxMode::Off) } else { options.sandbox.or(self.mode) };
        let paths = |listed: Vec<AbsolutePath>| listed.into_iter().map(|path| path.0).collect();
        SandboxSettings {
            mode: mode.unwrap_or_default(),
            network: if self.network == Some(true) { Network::On } else { Network::Off },
            hosts: self.hosts.into_iter().chain(options.net.iter().cloned()).collect(),
            credentials: self.credentials,
            writable: paths(self.writable),
            hidden: paths(self.hidden),
            readable: paths(self.readable),
            devices: self.devices,
            max_processes: self.max_processes,
            max_memory: self.max_memory.map(|mib| mib.saturating_mul(1024 * 1024)),
        }
    }
}

impl SandboxSettings {
    /// Returns the devices that exist, without links.
    pub fn devices(&self) -> Vec<PathBuf> {
        let found = self.devices.iter().flat_map(Devices::existing);
        found.filter_map(|path| path.canonicalize().ok()).filter(|path| path.starts_with(DEV)).collect()
    }
}

/// The directory of all devices.
const DEV: &str = "/dev";

/// A device, a directory of devices, or all with names that begin in some way.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
struct Devices(String);

impl TryFrom<String> for Devices {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let path = Path::new(&text);
        let is_plain = path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
        let beginning = text.strip_suffix('*').unwrap_or(&text);
        if !path.starts_with(DEV) || path == Path::new(DEV) || !is_plain || beginning.contains('*') {
            return Err(format!(
                "`{text}` is not a device\nhint: write a path below `/dev`, such as `/dev/dri` or `/dev/nvidia*`"
            ));
        }
        Ok(Self(text))
    }
}

impl Devices {
    /// Returns the devices that exist.
    fn existing(&self) -> Vec<PathBuf> {
        let Some(beginning) = self.0.strip_suffix('*') else { return vec![PathBuf::from(&self.0)] };
        let around = Path::new(beginning).parent().filter(|_| !beginning.ends_with('/'));
        let entries = std::fs::read_dir(around.unwrap_or(Path::new(beginning))).into_iter().flatten().flatten();
        let paths = entries.map(|entry| entry.path());
        paths.filter(|path| path.as_os_str().as_encoded_bytes().starts_with(beginning.as_bytes())).collect()
    }
}

#[cfg(test)]
impl SandboxSettings {
    /// Reads the section from a text.
    pub fn from_text(text: &str, options: &RunOptions) -> Self {
        toml::from_str::<FileSandbox>(text).unwrap().settings(options)
    }
}

/// A path that does not depend on the current directory.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct AbsolutePath(pub PathBuf);

impl TryFrom<String> for AbsolutePath {
    type Error = String;

    fn try_from(path: String) -> Result<Self, String> {
        let absolute = match path.strip_prefix("~/").or((path == "~").then_some("")) {
            Some(below_home) => paths::home().map(|home| home.join(below_home)),
            None => Some(PathBuf::from(&path)).filter(|path| path.is_absolute()),
        };
        let refusal = || format!("`{path}` is not an absolute path\nhint: begin it with `/` or `~`");
        absolute.map(Self).ok_or_else(refusal)
    }
}

/// Grants of one command. The usual tools work with the defaults of absent keys.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct CommandGrants {
    /// Runs it in the sandbox; on by default.
    pub sandbox: Option<bool>,
    /// The network of the machine; on by default.
    pub network: Option<bool>,
    /// Credentials and sockets that it may use; by default all credentials, and the sockets of GnuPG.
    pub readable: Option<Vec<AbsolutePath>>,
    /// Directories that it may write to besides `/tmp`; by default the directories of the usual tools.
    pub writable: Option<Vec<AbsolutePath>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_override_the_mode_of_the_config() {
        let best_effort = RunOptions { sandbox: Some(SandboxMode::BestEffort), ..RunOptions::default() };
        let off = RunOptions { no_sandbox: true, ..RunOptions::default() };
        assert_eq!(SandboxSettings::from_text("", &RunOptions::default()).mode, SandboxMode::Require);
        assert_eq!(SandboxSettings::from_text("mode = \"off\"", &best_effort).mode, SandboxMode::BestEffort);
        assert_eq!(SandboxSettings::from_text("mode = \"require\"", &off).mode, SandboxMode::Off);
    }

    #[test]
    fn network_is_off_unless_the_config_allows_it() {
        assert_eq!(SandboxSettings::from_text("", &RunOptions::default()).network, Network::Off);
        assert_eq!(SandboxSettings::from_text("network = true", &RunOptions::default()).network, Network::On);
    }

    #[test]
    fn hosts_of_config_and_command_line_add_up() {
        let npm = RunOptions { net: vec!["*.npmjs.org:443".parse().unwrap()], ..RunOptions::default() };
        let found = SandboxSettings::from_text("hosts = [\"crates.io\"]", &npm).hosts;
        assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>(), ["crates.io", "*.npmjs.org:443"]);
        let error = toml::from_str::<FileSandbox>("hosts = [\"https://crates.io\"]").unwrap_err().to_string();
        assert!(error.contains("hint: write the host alone"), "{error}");
    }

    #[test]
    fn devices_are_paths_below_dev_with_an_open_end() {
        let devices = |text: &str| {
            SandboxSettings::from_text(&format!("devices = [\"{text}\"]"), &RunOptions::default()).devices()
        };
        assert_eq!(devices("/dev/nul*"), [Path::new("/dev/null")]);
        assert_eq!(devices("/dev/null"), [Path::new("/dev/null")]);
        assert!(devices("/dev/no-such*").is_empty() && devices("/dev/no-such").is_empty());
        // A link that leads out of the directory, as some systems have.
        assert!(devices("/dev/stdi*").iter().all(|path| path.starts_with("/dev")));
        for wrong in ["/dev", "/dev/", "/etc/passwd", "dri", "/dev/../etc/x", "/dev/*/x", "/dev/a*b*"] {
            let error = toml::from_str::<FileSandbox>(&format!("devices = [\"{wrong}\"]")).unwrap_err().to_string();
            assert!(error.contains("is not a device") && error.contains("hint:"), "{wrong}: {error}");
        }
    }

    #[test]
    fn relative_paths_are_refused() {
        let error = toml::from_str::<FileSandbox>("writable = [\"target\"]").unwrap_err().to_string();
        assert!(error.contains("`target` is not an absolute path"), "{error}");
        assert!(
            !SandboxSettings::from_text("readable = [\"~/x\", \"/y\"]", &RunOptions::default()).readable.is_empty()
        );
    }

    #[test]
    fn paths_begin_at_the_root_or_at_home() {
        let path = |text: &str| AbsolutePath::try_from(text.to_owned());
        assert_eq!(path("/y").unwrap().0, PathBuf::from("/y"));
        assert_eq!(path("~/x").unwrap().0, paths::home().unwrap().join("x"));
        assert_eq!(path("~").unwrap().0, paths::home().unwrap());
        for relative in ["target", "", "./x", "~user/x"] {
            assert!(path(relative).unwrap_err().contains("is not an absolute path"), "{relative}");
        }
    }
}
