//! The places, networks and resources that a program may use, and the request that passes them to a helper, as text in
//! its environment.

use crate::encoding;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// A policy. Everything can be read except `hidden`, and nothing can be written except `writable`.
///
/// Paths are absolute and without links. A path that does not exist is skipped, so that one policy fits all calls. Of
/// paths inside each other, the inner one decides; of lists with the same path, the first of `excluded`, `writable`,
/// `visible` and `hidden`. Read-only paths stay so.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxPolicy {
    /// Directories that programs write to.
    #[serde(with = "encoding::paths")]
    pub writable: Vec<PathBuf>,
    /// Paths inside these that stay read-only, and that cannot be renamed or replaced.
    #[serde(with = "encoding::paths")]
    pub read_only: Vec<PathBuf>,
    /// Files and directories that programs cannot read.
    #[serde(with = "encoding::paths")]
    pub hidden: Vec<PathBuf>,
    /// Files and directories that programs can neither read nor change, although they see that they are there. Without
    /// namespaces, nothing can be created in the directories around them, and nothing is held with
    /// [`Enforcement::BestEffort`].
    #[serde(with = "encoding::paths")]
    pub excluded: Vec<PathBuf>,
    /// Directories in writable ones that keep their names.
    #[serde(with = "encoding::paths")]
    pub pinned: Vec<PathBuf>,
    /// Paths inside `hidden` that can be read all the same. A socket among them can be connected to, where there are namespaces.
    #[serde(with = "encoding::paths")]
    pub visible: Vec<PathBuf>,
    /// The directory that programs see as `/tmp` and `/var/tmp`. Where the system has no mount namespaces, only `TMPDIR`
    /// names it.
    #[serde(with = "encoding::optional")]
    pub temporary: Option<PathBuf>,
    /// Devices that programs may use besides the usual ones, and directories of devices.
    #[serde(with = "encoding::paths")]
    pub devices: Vec<PathBuf>,
    /// Access to networks.
    pub network: Network,
    /// Limits on resources.
    pub limits: ResourceLimits,
    /// The consequence of a missing layer.
    pub enforcement: Enforcement,
}

/// A program's view of a path and of everything beneath, up to paths with separate views.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum View {
    Hidden,
    Visible,
    Writable,
    Excluded,
}

/// The paths with separate views, outer ones first.
pub(crate) struct Views<'a>(BTreeMap<&'a Path, View>);

impl SandboxPolicy {
    pub(crate) fn views(&self) -> Views<'_> {
        let lists = [
            (&self.hidden, View::Hidden),
            (&self.visible, View::Visible),
            (&self.writable, View::Writable),
            (&self.excluded, View::Excluded),
        ];
        Views(lists.iter().flat_map(|(list, view)| list.iter().map(|path| (path.as_path(), *view))).collect())
    }
}

impl Views<'_> {
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Path, View)> {
        self.0.iter().map(|(path, view)| (*path, *view))
    }

    /// Returns the view of a path: its own, or the view of the nearest directory around it that has one.
    pub(crate) fn nearest_view(&self, path: &Path) -> Option<View> {
        path.ancestors().find_map(|path| self.0.get(path).copied())
    }

    /// Returns whether programs cannot read a path.
    pub(crate) fn hide(&self, path: &Path) -> bool {
        matches!(self.nearest_view(path), Some(View::Hidden | View::Excluded))
    }
}

/// Access to networks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Network {
    /// No network. With namespaces, a program still has a private loopback device.
    #[default]
    Off,
    /// No network, but a proxy of the parent listens at [`PROXY_PORT`](crate::PROXY_PORT) of the loopback device. Needs
    /// namespaces; without them it is the same as `Off`.
    Proxied,
    /// The network of the machine.
    On,
}

/// The consequence of a missing layer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Enforcement {
    /// Everything in the policy is enforced, or the program does not start. Without namespaces, read-only paths cost the
    /// right to create entries in the directories around them.
    #[default]
    Require,
    /// The layers that the system has are used. Without namespaces, read-only paths inside writable directories can be
    /// written, and the program can create entries next to them.
    BestEffort,
}

/// Limits on the resources of a program and of everything that it starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceLimits {
    /// Processes at a time; enforced with namespaces, and not for root.
    pub processes: u64,
    /// Bytes of memory together, and processes also for root; enforced where the system delegates a control group of version 2.
    pub memory_bytes: Option<u64>,
    /// Bytes of one file.
    pub file_bytes: Option<u64>,
}

impl Default for ResourceLimits {
    fn default() -> Self {
        // A parallel build of a large project has a few hundred processes and threads.
        Self { processes: 4096, memory_bytes: None, file_bytes: None }
    }
}

/// The layers to use, for tests and for machines without all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layers {
    /// User, mount, process, IPC and network namespaces.
    pub namespaces: bool,
    /// Landlock.
    pub landlock: bool,
}

impl Default for Layers {
    fn default() -> Self {
        Self { namespaces: true, landlock: true }
    }
}

/// The work of one helper.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct HelperRequest {
    /// The build of the program that wrote it.
    pub(crate) build: String,
    pub(crate) policy: SandboxPolicy,
    pub(crate) layers: Layers,
    /// The working directory of the program.
    #[serde(with = "encoding::path")]
    pub(crate) directory: PathBuf,
    /// The descriptor of the socket to the parent, if it runs a proxy for the program.
    pub(crate) proxy: Option<i32>,
    /// Set up everything, start nothing and report.
    pub(crate) only_check: bool,
}

/// The end of a helper that did its work.
#[derive(Debug)]
pub(crate) enum HelperOutcome {
    Ended(ExitCode),
    Checked(CheckReport),
}

/// The report of a helper that only checked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CheckReport {
    /// The version of Landlock.
    pub(crate) landlock: Option<u32>,
    pub(crate) seccomp: bool,
    /// The reason why there is no control group; empty if there is one.
    pub(crate) no_group: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inner_paths_decide_and_same_paths_have_an_order() {
        let paths = |names: &[&str]| names.iter().map(PathBuf::from).collect();
        let policy = SandboxPolicy {
            hidden: paths(&["/h", "/w/h", "/both", "/seen"]),
            visible: paths(&["/h/v", "/both", "/seen"]),
            writable: paths(&["/w", "/h/w", "/both", "/excluded"]),
            excluded: paths(&["/h/w/.env", "/excluded"]),
            ..SandboxPolicy::default()
        };
        let views = policy.views();
        for (path, view) in [
            ("/", None),
            ("/h/x", Some(View::Hidden)),
            ("/h/v/x", Some(View::Visible)),
            ("/h/w/x", Some(View::Writable)),
            ("/h/w/.env", Some(View::Excluded)),
            ("/w/h/x", Some(View::Hidden)),
            ("/both", Some(View::Writable)),
            ("/seen", Some(View::Visible)),
            ("/excluded", Some(View::Excluded)),
        ] {
            assert_eq!(views.nearest_view(Path::new(path)), view, "{path}");
        }
    }
}
