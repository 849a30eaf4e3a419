//! Plugins and the tools of their authors.

mod author_exports;
mod author_faults;
pub(crate) mod authors;
mod builtin;
mod cases;
mod cloud;
mod command_actions;
mod compiling;
mod components;
mod examples;
mod extra_members;
pub(crate) mod guide;
mod guide_commands;
mod many_plugins;
mod offers;
mod openapi;
mod packing;
mod personal_data;
mod plain;
mod plain_languages;
mod plugin_test;
mod registry;
mod released;
mod reloads;
mod scale;
mod todo;
#[cfg(target_os = "linux")]
mod watching;
mod web;
