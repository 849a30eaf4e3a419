//! The command line.

use clap::{Args, Parser, Subcommand, ValueEnum};
use pinion_session_store::EntryId;
use std::path::PathBuf;

/// A coding agent for the terminal. Every tool is a sandboxed WebAssembly component.
#[derive(Debug, Parser)]
#[command(name = "pinion", version, max_term_width = 100, args_conflicts_with_subcommands = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) run: RunArgs,
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// Options of every command.
#[derive(Debug, Clone, Args)]
pub(crate) struct GlobalArgs {
    /// Work in this folder
    #[arg(short = 'C', long = "cd", value_name = "DIR", global = true)]
    pub(crate) work_in: Option<PathBuf>,
    /// Say more on stderr: -v what tools do, -vv the log
    #[arg(short, long, action = clap::ArgAction::Count, global = true)]
    pub(crate) verbose: u8,
    /// Say nothing on stderr but errors
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
}

/// Options of a run.
#[derive(Debug, Clone, Args)]
pub(crate) struct RunArgs {
    /// What the agent is to do; piped stdin is added
    #[arg(value_name = "PROMPT")]
    pub(crate) prompt: Vec<String>,
    /// One run without a conversation: the answer on stdout, everything else on stderr; so are --plan and --execute
    #[arg(short, long)]
    pub(crate) print: bool,
    /// What stdout gets in a run without a conversation
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) output_format: OutputFormat,

    /// Look at the project and write a plan for the prompt into a file; nothing else is changed, no program runs
    #[arg(long, help_heading = "Plan")]
    pub(crate) plan: bool,
    /// Write the plan into this file, also when it is there already; `.pinion/plans/TITLE.md` otherwise
    #[arg(long, value_name = "FILE", help_heading = "Plan", requires = "plan")]
    pub(crate) plan_file: Option<PathBuf>,
    /// Do the steps of a plan that are not done, in a new session; limits hold for each step
    #[arg(long, value_name = "PLAN", help_heading = "Plan",
        conflicts_with_all = ["prompt", "plan", "continue_last", "resume", "fork"])]
    pub(crate) execute: Option<PathBuf>,

    /// The provider; may be left out where the model's name tells
    #[arg(long, value_name = "NAME", help_heading = "Model")]
    pub(crate) provider: Option<String>,
    /// The model
    #[arg(short, long, value_name = "[PROVIDER/]MODEL", help_heading = "Model")]
    pub(crate) model: Option<String>,
    /// Where the provider is, instead of its usual place
    #[arg(long, value_name = "URL", help_heading = "Model")]
    pub(crate) base_url: Option<String>,
    /// How long the model may think
    #[arg(long, value_name = "LEVEL", help_heading = "Model")]
    pub(crate) thinking: Option<Thinking>,
    /// Write what is asked and answered into this file, without keys
    #[arg(long, value_name = "FILE", help_heading = "Model", conflicts_with = "replay")]
    pub(crate) record: Option<PathBuf>,
    /// Take the answers from this file, a recording or a script, instead of asking anybody
    #[arg(long, value_name = "FILE", help_heading = "Model")]
    pub(crate) replay: Option<PathBuf>,

    /// Go on with the last session of this folder
    #[arg(short = 'c', long = "continue", help_heading = "Session", conflicts_with_all = ["resume", "session", "fork"])]
    pub(crate) continue_last: bool,
    /// Go on with a session by its id, or the beginning of it
    #[arg(short, long, value_name = "ID", num_args = 0..=1, default_missing_value = "", help_heading = "Session")]
    pub(crate) resume: Option<String>,
    /// Keep the session in this file
    #[arg(long, value_name = "PATH", help_heading = "Session", conflicts_with = "resume")]
    pub(crate) session: Option<PathBuf>,
    /// Go on with a copy of a session, by its id or the beginning of it; the session itself stays as it is
    #[arg(long, value_name = "ID", help_heading = "Session", conflicts_with_all = ["resume", "session"])]
    pub(crate) fork: Option<String>,
    /// Keep no session
    #[arg(long, help_heading = "Session", conflicts_with_all = ["continue_last", "resume", "session", "fork"])]
    pub(crate) no_session: bool,

    /// Load a plugin from this file; what it may do is in the config
    #[arg(long = "plugin", value_name = "PATH", help_heading = "Tools")]
    pub(crate) plugins: Vec<PathBuf>,
    /// Load no plugins but the built-in ones and those of --plugin
    #[arg(long, help_heading = "Tools")]
    pub(crate) no_plugins: bool,
    /// Load no built-in plugins
    #[arg(long, help_heading = "Tools")]
    pub(crate) no_builtin_plugins: bool,
    /// Offer the model only these tools
    #[arg(long, value_name = "NAMES", value_delimiter = ',', help_heading = "Tools")]
    pub(crate) tools: Option<Vec<String>>,
    /// Offer the model no tools
    #[arg(long, help_heading = "Tools", conflicts_with = "tools")]
    pub(crate) no_tools: bool,
    /// Which calls to ask about: all that touch anything, those that can do harm, none
    #[arg(long, value_name = "MODE", help_heading = "Tools")]
    pub(crate) approve: Option<Approve>,

    /// Turns at most
    #[arg(long, value_name = "N", help_heading = "Limits")]
    pub(crate) max_turns: Option<u32>,
    /// Tokens at most, without those that come from the vendor's cache
    #[arg(long, value_name = "N", help_heading = "Limits")]
    pub(crate) max_tokens: Option<u64>,
    /// US dollars at most; the prices of all models must be known
    #[arg(long, value_name = "USD", value_parser = positive, help_heading = "Limits")]
    pub(crate) max_cost: Option<f64>,
    /// Seconds at most
    #[arg(long, value_name = "SECONDS", help_heading = "Limits")]
    pub(crate) timeout: Option<u64>,

    /// The system prompt, instead of the built-in one
    #[arg(long, value_name = "TEXT", help_heading = "Prompt")]
    pub(crate) system_prompt: Option<String>,
    /// More for the end of the system prompt
    #[arg(long, value_name = "TEXT", help_heading = "Prompt")]
    pub(crate) append_system_prompt: Option<String>,
    /// Do not read AGENTS.md and CLAUDE.md
    #[arg(long, help_heading = "Prompt")]
    pub(crate) no_context_files: bool,
}

fn positive(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "not a number")?;
    if value > 0.0 && value.is_finite() { Ok(value) } else { Err("must be more than 0".to_owned()) }
}

/// `--output-format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    /// The text of the last message
    Text,
    /// One JSON object at the end
    Json,
    /// One event a line, as JSON
    StreamJson,
}

/// `--thinking`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Thinking {
    Off,
    Minimal,
    Low,
    Medium,
    High,
    Xhigh,
}

/// `--approve`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Approve {
    /// Ask about every call that can read, change, run or send anything
    Ask,
    /// Ask about calls that can change, run or send anything
    Smart,
    /// Ask about nothing
    All,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// See it work with no key and no network: a scripted model on a scratch folder
    Demo,
    /// Write, build, check and try plugins
    #[command(subcommand)]
    Plugin(PluginCommand),
    /// Decide which projects may use a config and plugins of their own
    #[command(subcommand)]
    Trust(TrustCommand),
    /// Look at sessions, copy, export and delete them
    #[command(subcommand)]
    Session(SessionCommand),
    /// Look at models
    #[command(subcommand)]
    Model(ModelCommand),
    /// Look at the config
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Check that everything that pinion needs is there
    Doctor,
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum PluginCommand {
    /// Start a plugin in Rust, in a new folder of this name
    New {
        /// The plugin's name; the folder is made where you are
        name: String,
    },
    /// Build the plugin in a folder
    Build {
        /// The folder with its Cargo.toml
        #[arg(default_value = ".")]
        folder: PathBuf,
        /// Where the component goes; `target/pinion/NAME.wasm` in the folder otherwise
        #[arg(short, long, value_name = "FILE")]
        out: Option<PathBuf>,
        /// Put it among the user's plugins; a running pinion loads it at once
        #[arg(long, conflicts_with = "out")]
        install: bool,
    },
    /// Give a component of another language its manifest
    Pack {
        /// The component
        file: PathBuf,
        /// The plugin's name
        #[arg(long)]
        name: String,
        /// The plugin's version
        #[arg(long, value_name = "VERSION", default_value = "0.1.0")]
        plugin_version: String,
        /// One line for people
        #[arg(long, default_value = "")]
        description: String,
        #[arg(long = "ask", value_name = "CAPABILITY", help = capabilities("A capability that the plugin asks for"))]
        asks: Vec<String>,
        /// Where the result goes; the file itself otherwise
        #[arg(short, long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Check a component without trusting it: what it says of itself, and that it loads
    Check {
        /// The component
        file: PathBuf,
    },
    /// List the plugins that a run would load
    List,
    /// Tell all about a plugin
    Info {
        /// Its name, or its file
        plugin: String,
    },
    /// Call a tool of a plugin, and print the result and what the call used
    Call {
        /// Its name, or its file
        plugin: String,
        /// The tool
        tool: String,
        /// The arguments, as a JSON object
        #[arg(default_value = "{}")]
        arguments: String,
        #[arg(long = "grant", value_name = "CAPABILITY", help = capabilities("Grant a capability for this call"))]
        grants: Vec<String>,
    },
    /// Grant capabilities to a plugin file as it is now
    ///
    /// The grants hold for this path and content. Without capabilities, confirms a file that has changed: it keeps what was
    /// granted before and has what the config grants to its name. Running sessions apply the change when they reload the file.
    Grant {
        /// Its name, or its file
        plugin: String,
        #[arg(value_name = "CAPABILITY", help = capabilities("Capabilities to grant"))]
        capabilities: Vec<String>,
    },
    /// Revoke capabilities of a plugin file, all of them by default
    ///
    /// Running sessions apply the change when they reload the file; restart them to be sure.
    Revoke {
        /// Its name, or its file
        plugin: String,
        #[arg(value_name = "CAPABILITY", help = capabilities("Capabilities to revoke"))]
        capabilities: Vec<String>,
    },
}

/// Names all capabilities at the end of a help text.
fn capabilities(about: &str) -> String {
    format!("{about}: {}", pinion_plugin_runtime::capability_forms().join(", "))
}

#[derive(Debug, Subcommand)]
pub(crate) enum TrustCommand {
    /// List the directories that are trusted, and whether what they bring is still the same
    List,
    /// Show what a directory brings in `.pinion`, and trust exactly that
    Add {
        /// The directory [default: the one to work in]
        dir: Option<PathBuf>,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
    /// Trust a directory no longer
    Remove {
        /// The directory [default: the one to work in]
        dir: Option<PathBuf>,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum SessionCommand {
    /// List sessions, the last one first
    List {
        /// Those of all folders
        #[arg(short, long)]
        all: bool,
    },
    /// Print a session as text
    Show {
        /// Its id, or the beginning of it
        id: String,
        /// The branch that ends at this entry, instead of the one that is gone on with
        #[arg(long, value_name = "ENTRY")]
        branch: Option<EntryId>,
    },
    /// Write a session as a document, with all its branches
    Export {
        /// Its id, or the beginning of it
        id: String,
        /// In what form; when left out, as FILE's ending says
        #[arg(short, long, value_name = "FORMAT")]
        format: Option<Export>,
        /// Where it goes; stdout otherwise
        #[arg(short, long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Copy a session to a new one, and print its id
    Fork {
        /// Its id, or the beginning of it
        id: String,
        /// Up to this entry, instead of all of the branch that is gone on with
        #[arg(long, value_name = "ENTRY")]
        at: Option<EntryId>,
    },
    /// Delete sessions for ever, with those of their sub-agents
    Delete {
        /// Their ids, or the beginnings of them
        #[arg(value_name = "ID", required = true)]
        ids: Vec<String>,
    },
}

/// `session export --format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Export {
    /// A page for a browser that needs nothing else
    Html,
    /// CommonMark
    Markdown,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ModelCommand {
    /// List the models that are known, with what they cost
    List,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print the config as it is in effect
    Show,
    /// Print where the config, the data and the cache are
    Path,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_folder_that_is_built_is_not_the_one_to_work_in() {
        let cli = Cli::parse_from(["pinion", "plugin", "build", "here"]);
        assert_eq!(cli.global.work_in, None);
    }
}
