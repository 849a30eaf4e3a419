//! Calls of plugins: tool calls, commands and hooks, the instance each one runs on, and the state the host keeps for it.
//!
//! A call enters through [`executor`], [`commands`] or [`hooks`] and runs on a fresh instance ([`instance`]), on
//! an earlier one of a plugin of lifetime `reused` ([`idle`]) or on the one instance of a plugin of lifetime `session`
//! ([`session`]), on another thread ([`thread_handover`]), under a deadline and with the [`state`] that host imports
//! see.

mod actions;
pub(crate) mod commands;
mod executor;
pub(crate) mod hooks;
pub(crate) mod idle;
pub(crate) mod instance;
mod progress_relay;
pub(crate) mod session;
pub(crate) mod spinning;
pub(crate) mod state;
mod thread_handover;
