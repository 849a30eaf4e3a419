//! The assembly of a run: its session, its models and its agent.

mod agents;
mod built_in;
mod checking_plugins;
mod net_question;
pub mod notices;
pub mod session;
pub mod setup;
