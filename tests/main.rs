//! Integration tests of Pinion: real components in the real runtime, scripted models, and the command end to end.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]

mod agents;
mod architecture;
mod author_exports;
mod author_faults;
mod authors;
mod browser_login;
mod builtin;
mod cases;
mod children;
mod command;
mod compiling;
mod confinement;
mod contract;
#[cfg(target_os = "linux")]
mod conversation;
#[cfg(target_os = "linux")]
mod escapes;
mod examples;
#[cfg(target_os = "linux")]
mod faults;
#[cfg(unix)]
mod file_grants;
mod first_contact;
#[cfg(target_os = "linux")]
mod full_screen;
mod generated;
mod gnu_screen;
mod guide;
mod guide_commands;
mod hostile;
mod http;
#[cfg(target_os = "linux")]
mod inline;
#[cfg(target_os = "linux")]
mod keys;
mod kill;
mod limits;
mod live;
mod long_sessions;
mod many_plugins;
mod mcp_bridge;
mod mcp_command;
mod mcp_login;
#[cfg(target_os = "linux")]
mod mcp_questions;
mod mcp_serve;
mod mcp_servers;
mod offers;
mod openapi;
mod packages;
mod packing;
mod pages;
mod permissions;
mod plan;
mod plugin_test;
mod plugins;
mod processes;
mod programs;
mod providers;
mod readme;
mod registry;
mod released;
mod reloads;
#[cfg(target_os = "linux")]
mod resume;
mod scale;
#[cfg(target_os = "linux")]
mod screen_input;
mod sessions;
mod skills;
mod streaming;
mod structure;
#[cfg(target_os = "linux")]
mod surroundings;
#[cfg(target_os = "linux")]
mod themes;
mod tmux;
mod todo;
#[cfg(target_os = "linux")]
mod undo;
mod untrusted;
#[cfg(target_os = "linux")]
mod watching;
mod web;
mod zellij;
