//! Pinion as a library: everything between the command line and the agent.
//!
//! [`config`] decides which settings are in effect and [`trust`] which ones a project may make; [`plugins`] loads plugins
//! with their grants, [`process`] confines the programs that they start, [`mcp`] connects servers, and [`model`] chooses
//! models and finds their keys. They share [`workspace_base::Base`], and [`run`] puts an agent together from it.
//! [`application::App`] starts a complete agent in a few lines.
//!
//! This crate prints nothing and parses no command line: options are [`options::RunOptions`], and everything for the user
//! to see goes to a [`screen::Screen`].

pub mod application;
pub mod approve;
pub mod config;
pub mod failure;
pub mod files;
pub mod mcp;
pub mod model;
pub mod names;
pub mod options;
pub mod output;
pub mod plugins;
pub mod process;
pub mod prompt;
pub mod run;
pub mod screen;
pub mod sessions;
pub mod trust;
pub mod undo;
pub mod workspace_base;

pub use self::application::App;
