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
pub mod config;
pub mod failure;
pub mod names;
pub mod options;
pub mod prompt;
pub mod screen;
pub mod sessions;
pub mod trust;
pub mod undo;
pub mod workspace_base;

/// Approval of tool calls: the user's rules, the log of decisions, and the user who is asked.
pub mod approve {
    mod applied_changes;
    pub mod audit;
    pub mod permissions;
    pub mod stored;
    mod tool_rules;

    pub use crate::screen::Person;
}

/// The files and directories that this program works with.
pub mod files {
    pub mod paths;
    pub mod secret_storage;

    pub use pinion_guarded_files::{output_directories, owned_files, private, records, repository};
}

/// MCP servers: their files, their processes, their tokens, and the user whom they may ask.
pub mod mcp {
    pub mod edit;
    mod elicitation_dialogs;
    pub mod files;
    mod first_start;
    mod launch;
    pub mod lazy_servers;
    mod packages;
    mod sampling;
    pub mod servers;
    mod tokens;
    pub mod written;
}

/// Models and providers: the choice for a run, with its key, address and prices.
pub mod model {
    pub mod attribution;
    pub mod browser_login;
    pub(crate) mod daily_spend;
    mod environment;
    pub mod exchanges;
    pub mod in_process;
    pub mod info;
    mod key_check;
    mod local_models;
    pub(crate) mod plugin_budgets;
    mod prices;
    pub(crate) mod run_surroundings;
    mod select;
    mod served_window;
    mod stored_keys;

    pub use self::environment::proxies_or;
    pub use self::key_check::KeyVerdict;
    pub use self::local_models::FoundModel;
    pub use self::select::Chosen;
    pub use self::stored_keys::{Lacking, MAX_KEY, key_in};
    pub use crate::files::secret_storage::SecretLocation;
}

/// Text that is safe to show: everything that is not a literal of this program is neutralized and bounded.
///
/// Nothing here writes; the application shows [`Text`](output::Text) on its [`Screen`](crate::screen::Screen).
pub mod output {
    mod text;

    pub use self::text::{
        Part, PartExt, Text, age, break_words, bytes, fit, left, line, row, shell_command, shell_word, short,
        split_at_width, tokens, width, wrapped,
    };
    pub use crate::text;
    pub use pinion_agent::text::count;
}

/// The plugins that a run loads, and their grants.
pub mod plugins {
    pub mod builtin;
    mod file_stamp;
    pub mod grants;
    pub mod installed;
    pub mod package_lock;
    #[cfg(test)]
    mod package_tests;
    pub mod policy;
    pub mod project_packages;
    pub mod runtime;
    pub mod secrets;
    mod skills;
    pub mod sources;
}

/// The process itself, and the sandbox of the programs that it starts.
pub mod process {
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
}

/// The assembly of a run: its session, its models and its agent.
pub mod run {
    mod agent_copies;
    mod agents;
    mod built_in;
    mod change_tools;
    mod checking_plugins;
    pub mod journal;
    mod net_question;
    pub mod notices;
    pub mod session;
    pub mod setup;
}

pub use self::application::App;
