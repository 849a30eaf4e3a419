//! The sandbox around the programs that plugins start: what a program reaches of the file system, the network and other
//! processes, enforced by the operating system.
//!
//! A [`Policy`] says what a program may reach. A [`Launcher`] turns a [`Program`] and a policy into a command that starts
//! the *helper*: this program itself or a small one beside it, which calls [`run_for_parent`], confines itself and then
//! starts the program. A helper that cannot enforce a layer that the policy requires starts nothing, exits with [`HELPER_FAILED`], and writes one
//! line that names the layer and the remedy.
//!
//! On Linux the layers are namespaces (`linux/namespaces.rs`, `linux/mounts.rs`), Landlock (`linux/landlock.rs`), a filter
//! of system calls (`linux/seccomp.rs`) and resource limits. On macOS, `seatbelt.rs` writes a profile. Other systems have no
//! sandbox, and say so.

mod error;
mod git;
mod helper;
mod hint;
mod launch;
#[cfg(target_os = "linux")]
mod linux;
mod policy;
mod protected;
mod protection;
mod proxy;
mod request;
mod seatbelt;
mod secrets;

pub use error::SandboxError;
pub use git::{GitUser, Repository};
pub use helper::helper_beside;
pub use hint::{Denial, hint};
pub use launch::{HELPER_FAILED, Launcher, Program, Support, run_for_parent};
pub use policy::{Enforcement, Layers, Limits, Network, Policy};
pub use protected::{protected_among, protected_in};
pub use protection::Protection;
pub use proxy::{PROXY_PORT, ProxySocket};
pub use seatbelt::profile;
pub use secrets::secret_paths;
