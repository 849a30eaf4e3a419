//! The process itself, and the sandbox of the programs that it starts.

pub mod background;
pub mod confinement;
pub mod credentials;
pub mod hardening;
pub mod key_commands;
pub mod network;
pub mod own_command;
pub mod repositories;
pub mod running_programs;
pub mod sandbox_parts;

pub use self::own_command::begin;
