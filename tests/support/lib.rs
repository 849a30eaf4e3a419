//! Shared support of the integration tests: built components, and a runtime in a temporary directory.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]

#[path = "../../host/egress/tests/it/support/answering.rs"]
mod answering;
#[path = "../../host/egress/tests/it/support/certificates.rs"]
mod certificates;
mod documents;
mod guests;
mod model;
#[path = "../../host/egress/tests/it/support/network.rs"]
mod network;
mod pinion;
mod progress;
mod sandbox;
mod scale;
mod script;
mod served;
mod server;
#[cfg(target_os = "linux")]
mod terminal;
mod tmux;
mod wait;

pub use answering::{Answer, Received, answer};
pub use documents::{
    Document, anchors, blocks, code_spans, document, guide, links, pages, prose, repository, shell_blocks,
};
pub use guests::{builtin, example, guest, guests_directory};
pub use model::{Say, Thinker};
pub use network::{PUBLIC, TestNetwork};
pub use pinion::{Ended, Pinion, binary, has_namespaces};
pub use progress::{Progress, Seen};
pub use sandbox::{Sandbox, SandboxBuilder};
pub use scale::{EchoModel, as_result, assert_paired};
pub use script::{call, say};
pub use served::assert_served;
pub use server::HttpServer;
#[cfg(target_os = "linux")]
pub use terminal::{Terminal, start_on_terminal};
pub use tmux::Tmux;
pub use wait::{until, until_gone, wait_until};
