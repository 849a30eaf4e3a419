//! The options of a run, and the options that every command has.
//!
//! Each subcommand of the command declares its own arguments in its module.

use crate::output::terminal;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use pinion_agent::provider::ThinkingLevel;
use pinion_app::options::{Approve, RunOptions, SandboxMode, THINKING_LEVELS, UiForm};
use pinion_egress::HostRule;
use serde::de::{DeserializeOwned, IntoDeserializer as _};
use std::path::PathBuf;

/// Options of every command.
#[derive(Debug, Clone, Args)]
pub struct GlobalArgs {
    /// Run in this directory
    #[arg(short = 'C', long = "cd", value_name = "DIR", global = true)]
    pub work_in: Option<PathBuf>,
    /// Print more to stderr (-v for tool calls, -vv for the log)
    #[arg(short, long, action = clap::ArgAction::Count, global = true)]
    pub verbose: u8,
    /// Print only errors to stderr
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
}

/// Options of a run.
#[derive(Debug, Clone, Default, Args)]
pub struct RunArgs {
    /// Prompt for the agent, followed by stdin if that is piped
    #[arg(value_name = "PROMPT")]
    pub prompt: Vec<String>,
    /// Run once, non-interactively: answer on stdout, everything else on stderr (implied by --plan, --execute and --output-schema)
    #[arg(short, long)]
    pub print: bool,
    /// Format of stdout in a non-interactive run
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub output_format: OutputFormat,
    /// Print the text of every message to stdout while it arrives, with the format text [default: on a terminal]
    #[arg(long, conflicts_with_all = ["plan", "execute"], hide_short_help = true)]
    pub stream: bool,

    /// Answer with JSON that matches the JSON Schema in this file, in a non-interactive run
    #[arg(long, value_name = "FILE", conflicts_with_all = ["plan", "execute", "stream"], hide_short_help = true)]
    pub output_schema: Option<PathBuf>,
    /// Write the changes of the run to this file as a patch for `git apply`; - for stdout, in place of the answer
    #[arg(long, value_name = "FILE", conflicts_with = "plan", hide_short_help = true)]
    pub patch: Option<PathBuf>,

    /// Form of conversations [default: full, but line on a dumb terminal]
    #[arg(long, value_name = "FORM", value_parser = one_of::<UiForm>(UI_FORMS))]
    pub ui: Option<UiForm>,
    /// Keep the conversation in the terminal's own scrollback; the same as --ui inline
    #[arg(long, conflicts_with = "ui")]
    pub inline: bool,

    /// Write a plan for the prompt to a file, without changing other files or running programs
    #[arg(long, help_heading = "Plan")]
    pub plan: bool,
    /// Write the plan to this file, replacing it if it exists [default: .pinion/plans/TITLE.md]
    #[arg(long, value_name = "FILE", help_heading = "Plan", requires = "plan", hide_short_help = true)]
    pub plan_file: Option<PathBuf>,
    /// Execute the unfinished steps of a plan in a new session, with the limits applied to each step
    #[arg(long, value_name = "PLAN", help_heading = "Plan",
        conflicts_with_all = ["prompt", "plan", "continue_last", "resume", "fork"])]
    pub execute: Option<PathBuf>,

    /// Provider to use [default: inferred from the model]
    #[arg(long, value_name = "NAME", help_heading = "Model", hide_short_help = true)]
    pub provider: Option<String>,
    /// Model to use, by full or short name [default: from the first provider with a key]
    #[arg(short, long, value_name = "[PROVIDER/]MODEL", help_heading = "Model")]
    pub model: Option<String>,
    /// Base URL of the provider's API [default: the vendor's endpoint]
    #[arg(long, value_name = "URL", help_heading = "Model", hide_short_help = true)]
    pub base_url: Option<String>,
    /// Thinking level of the model [default: off]
    #[arg(long, value_name = "LEVEL", help_heading = "Model", value_parser = thinking_level())]
    pub thinking: Option<ThinkingLevel>,
    /// Record requests and responses to this file, without keys
    #[arg(long, value_name = "FILE", help_heading = "Model", conflicts_with = "replay", hide_short_help = true)]
    pub record: Option<PathBuf>,
    /// Replay the responses of a recording or a script instead of contacting a provider
    #[arg(long, value_name = "FILE", help_heading = "Model", hide_short_help = true)]
    pub replay: Option<PathBuf>,

    /// Continue the last session of this directory
    #[arg(short = 'c', long = "continue", help_heading = "Session", conflicts_with_all = ["resume", "session", "fork"])]
    pub continue_last: bool,
    /// Resume the session whose ID begins with this [default: choose from a list; without a screen, the last one of this directory]
    #[arg(short, long, value_name = "ID", num_args = 0..=1, default_missing_value = "", help_heading = "Session")]
    pub resume: Option<String>,
    /// Save the session to this file, resuming it if the file exists
    #[arg(long, value_name = "PATH", help_heading = "Session", conflicts_with = "resume", hide_short_help = true)]
    pub session: Option<PathBuf>,
    /// Continue a copy of the session whose ID begins with this
    #[arg(long, value_name = "ID", help_heading = "Session", conflicts_with_all = ["resume", "session"], hide_short_help = true)]
    pub fork: Option<String>,
    /// Do not save the session
    #[arg(long, help_heading = "Session", conflicts_with_all = ["continue_last", "resume", "session", "fork"], hide_short_help = true)]
    pub no_session: bool,

    /// Load the plugin in this file, with the grants that it has in the config
    #[arg(long = "plugin", value_name = "PATH", help_heading = "Tools", hide_short_help = true)]
    pub plugins: Vec<PathBuf>,
    /// Load only built-in plugins and those given with --plugin
    #[arg(long, help_heading = "Tools", hide_short_help = true)]
    pub no_plugins: bool,
    /// Do not load built-in plugins
    #[arg(long, help_heading = "Tools", hide_short_help = true)]
    pub no_builtin_plugins: bool,
    /// Offer the model only these tools
    #[arg(long, value_name = "NAMES", value_delimiter = ',', help_heading = "Tools")]
    pub tools: Option<Vec<String>>,
    /// Offer the model no tools
    #[arg(long, help_heading = "Tools", conflicts_with = "tools", hide_short_help = true)]
    pub no_tools: bool,
    /// Tool calls that need approval [default: smart]
    #[arg(long, value_name = "MODE", help_heading = "Tools", value_parser = one_of::<Approve>(APPROVE))]
    pub approve: Option<Approve>,

    /// Sandbox of programs [default: require]
    #[arg(long, value_name = "MODE", help_heading = "Tools", hide_short_help = true,
        value_parser = one_of::<SandboxMode>(SANDBOX_MODES))]
    pub sandbox: Option<SandboxMode>,
    /// Let programs reach a host, such as crates.io or *.npmjs.org:443 (repeatable)
    #[arg(long, value_name = "HOST", help_heading = "Tools", hide_short_help = true)]
    pub net: Vec<HostRule>,
    /// Run programs without a sandbox (same as --sandbox off)
    #[arg(long, help_heading = "Tools", conflicts_with = "sandbox", hide_short_help = true)]
    pub no_sandbox: bool,

    /// Stop after this many turns, 0 for no limit [default: 50, none in a conversation]
    #[arg(long, allow_negative_numbers = true, value_name = "N", help_heading = "Limits")]
    pub max_turns: Option<u32>,
    /// Stop after this many tokens, not counting those read from the vendor's cache; 0 for no limit [default: 1000000, none in a conversation]
    #[arg(long, allow_negative_numbers = true, value_name = "N", help_heading = "Limits", hide_short_help = true)]
    pub max_tokens: Option<u64>,
    /// Stop after this many input tokens, not counting those read from the vendor's cache; 0 for no limit
    #[arg(long, allow_negative_numbers = true, value_name = "N", help_heading = "Limits", hide_short_help = true)]
    pub max_input_tokens: Option<u64>,
    /// Stop after this many output tokens, 0 for no limit
    #[arg(long, allow_negative_numbers = true, value_name = "N", help_heading = "Limits", hide_short_help = true)]
    pub max_output_tokens: Option<u64>,
    /// Stop at this cost in US dollars, 0 for no limit (requires known prices of all models)
    #[arg(long, allow_negative_numbers = true, value_name = "USD", value_parser = amount, help_heading = "Limits")]
    pub max_cost: Option<f64>,
    /// Stop after this many seconds, 0 for no limit [default: 600, none in a conversation]
    #[arg(
        long,
        allow_negative_numbers = true,
        value_name = "SECONDS",
        help_heading = "Limits",
        hide_short_help = true
    )]
    pub timeout: Option<u64>,

    /// Replace the built-in system prompt
    #[arg(long, value_name = "TEXT", help_heading = "Prompt", hide_short_help = true)]
    pub system_prompt: Option<String>,
    /// Append to the system prompt
    #[arg(long, value_name = "TEXT", help_heading = "Prompt", hide_short_help = true)]
    pub append_system_prompt: Option<String>,
    /// Ignore AGENTS.md and CLAUDE.md (short: -nc)
    #[arg(long, help_heading = "Prompt", hide_short_help = true)]
    pub no_context_files: bool,
}

impl RunArgs {
    /// Returns the options of the run itself.
    pub fn options(&self) -> RunOptions {
        RunOptions {
            is_conversation: self.is_conversation(),
            stream: self.stream,
            provider: self.provider.clone(),
            model: self.model.clone(),
            base_url: self.base_url.clone(),
            thinking: self.thinking,
            record: self.record.clone(),
            replay: self.replay.clone(),
            continue_last: self.continue_last,
            resume: self.resume.clone(),
            session: self.session.clone(),
            fork: self.fork.clone(),
            no_session: self.no_session,
            plugins: self.plugins.clone(),
            no_plugins: self.no_plugins,
            no_builtin_plugins: self.no_builtin_plugins,
            tools: self.tools.clone(),
            no_tools: self.no_tools,
            approve: self.approve,
            sandbox: self.sandbox,
            net: self.net.clone(),
            no_sandbox: self.no_sandbox,
            max_turns: self.max_turns,
            max_tokens: self.max_tokens,
            max_input_tokens: self.max_input_tokens,
            max_output_tokens: self.max_output_tokens,
            max_cost: self.max_cost,
            timeout: self.timeout,
            system_prompt: self.system_prompt.clone(),
            append_system_prompt: self.append_system_prompt.clone(),
            no_context_files: self.no_context_files,
        }
    }

    /// Returns whether an option selects an earlier session.
    pub fn continues(&self) -> bool {
        self.options().continues()
    }

    /// Returns whether the user is to choose the session to continue from a list, where there is one.
    pub fn chooses_session(&self) -> bool {
        self.resume.as_deref() == Some("") && self.prompt.concat().trim().is_empty()
    }

    /// Returns whether a person at the terminal takes part.
    pub fn is_conversation(&self) -> bool {
        let is_one_run = self.print || self.plan || self.execute.is_some() || self.output_schema.is_some();
        !is_one_run && terminal::is_interactive()
    }
}

fn amount(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "not a number")?;
    if value >= 0.0 && value.is_finite() { Ok(value) } else { Err("must be 0 (no limit) or more".to_owned()) }
}

/// Names of values with their help.
type Names = &'static [(&'static str, &'static str)];

/// `--ui` and `PINION_UI`.
pub const UI_FORMS: Names = &[
    ("full", "The whole screen, which shows the conversation again on exit"),
    ("inline", "In the terminal's own scrollback, above the editor and the status line"),
    ("line", "Line by line"),
    ("reader", "Line by line for screen readers, without colours, and nothing that was written is changed"),
];

/// `--sandbox`.
const SANDBOX_MODES: Names = &[
    ("require", "Programs run confined or not at all"),
    ("best-effort", "Programs run with the protection that the system offers"),
    ("off", "Programs run unprotected"),
];

/// `--approve`.
pub const APPROVE: Names = &[
    ("ask", "Calls that can read, change, run or send anything"),
    ("confirm", "Calls that can change, run or send anything"),
    ("smart", "Calls that the sandbox does not confine"),
    ("edits", "Programs, but not changes to files of the project"),
    ("plan", "None: calls can only read"),
    ("all", "No calls"),
];

/// Parses one of some names.
pub fn one_of<T>(names: Names) -> impl TypedValueParser<Value = T>
where
    T: DeserializeOwned + Clone + Send + Sync + 'static,
{
    PossibleValuesParser::new(names.iter().map(|(name, help)| PossibleValue::new(*name).help(*help))).try_map(by_name)
}

fn thinking_level() -> impl TypedValueParser<Value = ThinkingLevel> {
    PossibleValuesParser::new(THINKING_LEVELS.map(|(name, _)| name)).try_map(by_name)
}

/// Parses the names that the config file uses, so that both accept the same words.
pub fn by_name<T: DeserializeOwned>(name: String) -> Result<T, serde::de::value::Error> {
    T::deserialize(name.into_deserializer())
}

/// `--output-format`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// The text of the last message
    #[default]
    Text,
    /// One JSON object at the end
    Json,
    /// One JSON event per line
    StreamJson,
}
