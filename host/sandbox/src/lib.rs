//! The sandbox around the programs that plugins start: the parts of the file system, the network and other processes
//! that a program reaches, enforced by the operating system.
//!
//! A [`SandboxPolicy`] lists the things that a program may reach. A [`Launcher`] turns a [`Program`] and a policy into a
//! command that starts the *helper*: this program itself or a small one in its directory, which calls
//! [`run_for_parent`], confines itself and then starts the program. A helper that cannot enforce a layer that the
//! policy requires starts nothing, exits with [`HELPER_FAILED`], and writes one line that names the layer and the
//! remedy.
//!
//! Some paths in writable directories decide which programs run outside, such as hooks of git. [`Protected`] finds them
//! before a program starts; mounts, Landlock or Seatbelt keep those that exist; and [`Protection`] checks the paths
//! afterwards that no layer keeps.
//!
//! On Linux the layers are namespaces (`linux/namespaces.rs`, `linux/mounts.rs`), Landlock (`linux/rules.rs`), a filter
//! of system calls (`linux/filter.rs`) and resource limits. On macOS, `seatbelt.rs` writes a profile. Other systems have no
//! sandbox, and say so.

mod encoding;
mod error;
mod helper;
mod hint;
mod launch;
#[cfg(target_os = "linux")]
mod linux;
mod policy;
mod protected;
mod protection;
mod seatbelt;
mod secrets;
mod tunnel;

pub use error::SandboxError;
pub use helper::helper_beside;
pub use hint::{Denial, hides_failure, hint, no_network, quiet_host, tracing_hint, unreachable_host};
pub use launch::{HELPER_FAILED, Launcher, Program, Support, run_for_parent};
pub use pinion_git::{
    CommandContext as CommandPlace, GitUser, LookBudget, Repository, UNKNOWN, files_of_arguments, nearby,
};
pub use policy::{Enforcement, Layers, Network, ResourceLimits, SandboxPolicy};
pub use protected::{
    Protected, ProtectedPlaces, directory_of_setting, is_nested_setting, protected_among, protected_in,
};
pub use protection::{Fate, OpenedDirectories, Protection, Reverted};
pub use seatbelt::profile;
pub use secrets::{known_secret_paths, secret_paths};
pub use tunnel::{PROXY_PORT, ProxySocket};
