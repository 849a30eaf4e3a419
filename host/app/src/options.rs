//! The options of a run, which come before the config.

use pinion_agent::approval::ApprovalMode;
use pinion_agent::provider::ThinkingLevel;
use pinion_egress::HostRule;
use serde::Deserialize;
use std::path::PathBuf;

/// Options of a run. Each one that is set comes before the same setting of the config.
#[derive(Debug, Clone, Default)]
pub struct RunOptions {
    /// Whether a person takes part, who is asked and whose prompts follow each other. Limits of the built-in defaults then do
    /// not apply.
    pub is_conversation: bool,
    /// Whether the text of messages is shown while it arrives.
    pub stream: bool,

    /// The provider; inferred from the model if none.
    pub provider: Option<String>,
    /// `MODEL` or `PROVIDER/MODEL`, by full or short name; the one of the first provider with a key if none.
    pub model: Option<String>,
    /// Base URL of the provider's API.
    pub base_url: Option<String>,
    /// Thinking level of the model.
    pub thinking: Option<ThinkingLevel>,
    /// File to which requests and responses are recorded, without keys.
    pub record: Option<PathBuf>,
    /// A recording or a script whose responses replace a provider's.
    pub replay: Option<PathBuf>,

    /// Continue the last session of the workspace.
    pub continue_last: bool,
    /// Beginning of the id of the session to resume; empty for the last one of the workspace.
    pub resume: Option<String>,
    /// File of the session, which is resumed if the file exists.
    pub session: Option<PathBuf>,
    /// Beginning of the id of the session to continue a copy of.
    pub fork: Option<String>,
    /// Do not save the session.
    pub no_session: bool,

    /// Plugins to load in addition to the config's, with the grants that they have in the config.
    pub plugins: Vec<PathBuf>,
    /// Load only built-in plugins and those in [`Self::plugins`].
    pub no_plugins: bool,
    /// Do not load built-in plugins.
    pub no_builtin_plugins: bool,
    /// The only tools to offer.
    pub tools: Option<Vec<String>>,
    /// Offer no tools.
    pub no_tools: bool,
    /// Tool calls that need approval.
    pub approve: Option<Approve>,

    /// Sandbox of programs.
    pub sandbox: Option<SandboxMode>,
    /// Hosts that programs may reach, in addition to the config's.
    pub net: Vec<HostRule>,
    /// Run programs without a sandbox.
    pub no_sandbox: bool,

    /// Maximum number of turns, 0 for no limit.
    pub max_turns: Option<u32>,
    /// Maximum number of tokens, 0 for no limit.
    pub max_tokens: Option<u64>,
    /// Maximum number of input tokens, 0 for no limit.
    pub max_input_tokens: Option<u64>,
    /// Maximum number of output tokens, 0 for no limit.
    pub max_output_tokens: Option<u64>,
    /// Maximum cost in US dollars, 0 for no limit.
    pub max_cost: Option<f64>,
    /// Maximum time in seconds, 0 for no limit.
    pub timeout: Option<u64>,

    /// Replacement for the built-in system prompt.
    pub system_prompt: Option<String>,
    /// Text that is appended to the system prompt.
    pub append_system_prompt: Option<String>,
    /// Ignore context files such as `AGENTS.md`.
    pub no_context_files: bool,
}

impl RunOptions {
    /// Returns whether an option selects an earlier session.
    pub fn continues(&self) -> bool {
        self.continue_last || self.resume.is_some() || self.fork.is_some() || self.session.is_some()
    }
}

/// Thinking levels with their names in options, commands and the config.
pub const THINKING_LEVELS: [(&str, ThinkingLevel); 6] = [
    ("off", ThinkingLevel::Off),
    ("minimal", ThinkingLevel::Minimal),
    ("low", ThinkingLevel::Low),
    ("medium", ThinkingLevel::Medium),
    ("high", ThinkingLevel::High),
    ("xhigh", ThinkingLevel::Xhigh),
];

/// Form of conversations in a terminal: `ui` in the config.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UiForm {
    /// The whole screen, which shows the conversation again on exit.
    #[default]
    Full,
    /// In the terminal's own scrollback, above the editor and the status line.
    Inline,
    /// Line by line.
    Line,
    /// Line by line for screen readers, without colours, and nothing that was written is changed.
    Reader,
}

/// Sandbox of programs: `mode` of `[sandbox]` in the config.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SandboxMode {
    /// Programs run confined or not at all.
    #[default]
    Require,
    /// Programs run with the protection that the system offers.
    BestEffort,
    /// Programs run unprotected.
    Off,
}

/// Calls that need approval: `approve` in the config.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Approve {
    /// Calls that can read, change, run or send anything.
    Ask,
    /// Calls that can change, run or send anything.
    Confirm,
    /// Calls that the sandbox does not confine.
    Smart,
    /// Programs, but not changes to files of the project.
    Edits,
    /// None: calls can only read.
    Plan,
    /// No calls.
    All,
}

impl From<Approve> for ApprovalMode {
    fn from(approve: Approve) -> Self {
        match approve {
            Approve::Ask => Self::Ask,
            Approve::Confirm => Self::Confirm,
            Approve::Smart => Self::Smart,
            Approve::Edits => Self::Edits,
            Approve::Plan => Self::Plan,
            Approve::All => Self::All,
        }
    }
}
