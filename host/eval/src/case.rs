//! Sets of cases, as files describe them.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A set of cases.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct EvaluationSet {
    /// Version of the format; 1 is the only one.
    #[serde(default = "first_version")]
    pub version: u32,
    /// Id, a single component of a path.
    pub id: String,
    /// Name for people.
    #[serde(default)]
    pub name: Option<String>,
    /// Purpose of the set.
    #[serde(default)]
    pub description: Option<String>,
    /// Budget of all trials together. When it is spent, no further trial starts and running ones end.
    #[serde(default)]
    pub budget: SetBudget,
    /// Bounds that the result must meet. Without bounds, every trial must pass.
    #[serde(default)]
    pub gate: GateBounds,
    /// The cases.
    pub cases: Vec<EvaluationCase>,
    /// The directory of the set's file, which relative paths refer to.
    #[serde(skip)]
    pub directory: PathBuf,
}

fn first_version() -> u32 {
    1
}

/// The budget of a set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct SetBudget {
    /// Maximum cost in US dollars.
    pub cost: Option<f64>,
    /// Maximum number of tokens, not counting those read from the vendor's cache.
    pub tokens: Option<u64>,
    // Digests of stored results cover these settings, so that later ones are left out of the text unless they are set.
    /// Maximum number of input tokens, not counting those read from the vendor's cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    /// Maximum number of output tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
}

/// Bounds of a result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct GateBounds {
    /// Minimum share of trials that pass, 0 to 1.
    pub pass_rate: Option<f64>,
    /// Maximum cost in US dollars. An unknown cost misses the bound.
    pub cost: Option<f64>,
    /// Maximum sum of the durations of the trials, in seconds.
    pub seconds: Option<f64>,
    // See `SetBudget`.
    /// Maximum number of tokens of all trials, cached ones included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Maximum number of input tokens of all trials, cached ones included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    /// Maximum number of output tokens of all trials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
    /// Maximum number of tool calls of all trials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls: Option<u64>,
    /// Maximum number of requests to the model of all trials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turns: Option<u64>,
}

/// A task for an agent, with the expectations of its work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct EvaluationCase {
    /// Id, a single component of a path that is unique in the set.
    pub id: String,
    /// Name for people.
    #[serde(default)]
    pub name: Option<String>,
    /// Purpose of the case.
    #[serde(default)]
    pub description: Option<String>,
    /// The only prompt.
    #[serde(default)]
    pub prompt: Option<String>,
    /// Prompts of one conversation, in order.
    #[serde(default)]
    pub prompts: Vec<String>,
    /// A session file whose trajectory is evaluated, in place of a run.
    #[serde(default)]
    pub session: Option<PathBuf>,
    /// A plan in the workspace that is executed, in place of prompts.
    #[serde(default)]
    pub execute: Option<String>,
    /// A session file whose conversation the prompts continue.
    #[serde(default)]
    pub resume: Option<PathBuf>,
    /// Variables in the environment of the agent.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// Source of the workspace; empty by default.
    #[serde(default)]
    pub workspace: WorkspaceSource,
    /// The only model.
    #[serde(default)]
    pub model: Option<String>,
    /// Models that each work on the case.
    #[serde(default)]
    pub models: Vec<String>,
    /// Recordings or scripts that replace the model, one for each prompt or for the plan.
    #[serde(default)]
    pub replay: Vec<PathBuf>,
    /// Replacement for the built-in system prompt.
    #[serde(default)]
    pub system_prompt: Option<String>,
    /// Calls that need approval, and so are denied: a mode of `--approve`.
    #[serde(default)]
    pub approve: Option<String>,
    /// The only tools that are offered.
    #[serde(default)]
    pub tools: Option<Vec<String>>,
    /// Number of trials for each model.
    #[serde(default = "one_trial")]
    pub trials: u32,
    /// Limits of each run.
    #[serde(default)]
    pub limits: CaseLimits,
    /// Names of the evaluators that count; all by default.
    #[serde(default)]
    pub evaluators: Option<Vec<String>>,
    /// Expectations.
    #[serde(default)]
    pub expect: CaseExpectations,
    /// Any further data.
    #[serde(default)]
    pub metadata: Map<String, Value>,
}

fn one_trial() -> u32 {
    1
}

impl EvaluationCase {
    /// Returns the prompts in order.
    pub fn all_prompts(&self) -> impl Iterator<Item = &str> {
        self.prompt.iter().chain(&self.prompts).map(String::as_str)
    }

    /// Returns the number of runs that follow each other.
    pub fn run_count(&self) -> usize {
        self.all_prompts().count() + usize::from(self.execute.is_some())
    }

    /// Returns the models that work on the case; a single `None` means the default model of the config.
    pub fn all_models(&self) -> Vec<Option<&str>> {
        let named: Vec<_> = self.model.iter().chain(&self.models).map(|model| Some(model.as_str())).collect();
        if named.is_empty() { vec![None] } else { named }
    }

    /// Returns whether an evaluator counts for this case.
    pub fn uses(&self, evaluator: &str) -> bool {
        self.evaluators.as_ref().is_none_or(|names| names.iter().any(|name| name == evaluator))
    }
}

/// Limits of each run of a case.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct CaseLimits {
    /// Maximum number of turns.
    pub turns: Option<u32>,
    /// Maximum number of tokens, not counting those read from the vendor's cache.
    pub tokens: Option<u64>,
    /// Maximum number of input tokens, not counting those read from the vendor's cache.
    pub input_tokens: Option<u64>,
    /// Maximum number of output tokens.
    pub output_tokens: Option<u64>,
    /// Maximum cost in US dollars; requires known prices.
    pub cost: Option<f64>,
    /// Maximum duration in seconds.
    pub seconds: Option<u64>,
}

/// Source of a workspace. Files in place are written last.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct WorkspaceSource {
    /// A directory to copy.
    pub directory: Option<PathBuf>,
    /// A commit of a repository to check out.
    pub git: Option<GitSource>,
    /// Files with their contents, by relative path.
    pub files: BTreeMap<String, String>,
    /// Files with their contents in the directory `../outside`, which the agent must not change.
    pub outside: BTreeMap<String, String>,
}

/// A commit of a local repository.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct GitSource {
    /// Directory of the repository.
    pub repository: PathBuf,
    /// Branch, tag or commit.
    #[serde(default = "head")]
    pub reference: String,
}

fn head() -> String {
    "HEAD".to_owned()
}

/// Expectations of a case. Each kind belongs to the evaluator of that name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct CaseExpectations {
    /// Files after the run.
    pub files: Option<FileExpectations>,
    /// Commands of a shell that exit with status 0 in the workspace after the run.
    pub commands: Vec<String>,
    /// Tools that the agent calls.
    pub tools: Option<ToolExpectations>,
    /// The final answer.
    pub answer: Option<AnswerExpectations>,
    /// Upper bounds of the work.
    pub budget: Option<BudgetExpectations>,
    /// Directness of the work.
    pub efficiency: Option<EfficiencyExpectations>,
    /// The only effects that calls may have.
    pub authority: Option<Vec<CallEffect>>,
    /// No call is denied.
    pub no_denied_calls: bool,
    /// Texts in the results of tools.
    pub results: Option<ResultExpectations>,
    /// The steps of the executed plan are done in their order.
    pub plan_followed: bool,
    /// Tools of plugins that score the trial.
    pub functions: Vec<FunctionExpectation>,
    /// Calls of the session's journal, which are the same when they are repeated.
    pub recorded_calls: Option<RecordedCallExpectation>,
}

/// Expectations of files. Paths are relative to the workspace.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct FileExpectations {
    /// Files with their whole contents.
    pub equal: BTreeMap<String, String>,
    /// Files with texts that they contain.
    pub contain: BTreeMap<String, Vec<String>>,
    /// Files that do not exist.
    pub absent: Vec<String>,
    /// No file changes except those named here and those that match `may-change`.
    pub unchanged_elsewhere: bool,
    /// Patterns of further files that may change.
    pub may_change: Vec<String>,
}

impl FileExpectations {
    /// Returns the paths of all files whose contents are expected.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.equal.keys().chain(self.contain.keys()).chain(&self.absent).map(String::as_str)
    }
}

/// Expectations of tool calls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ToolExpectations {
    /// Comparison of the sequences.
    #[serde(default)]
    pub mode: ToolOrder,
    /// The expected calls.
    pub calls: Vec<ExpectedCall>,
    /// Also count the calls of sub-agents.
    #[serde(default)]
    pub sub_agents: bool,
    /// Minimum score, 0 to 1.
    #[serde(default = "whole")]
    pub threshold: f64,
}

fn whole() -> f64 {
    1.0
}

/// Comparison of expected and actual calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToolOrder {
    /// These calls, in this order, and no further ones.
    Exact,
    /// These calls in this order, with any calls between them.
    InOrder,
    /// These calls in any order, with any further calls.
    #[default]
    AnyOrder,
}

/// An expected tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ExpectedCall {
    /// Name of the tool.
    pub name: String,
    /// Arguments that the call has, among others.
    #[serde(default)]
    pub arguments: Option<Value>,
}

/// Expectations of the final answer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct AnswerExpectations {
    /// The whole answer, apart from surrounding white space.
    pub exact: Option<String>,
    /// Texts that the answer contains.
    pub contains: Vec<String>,
    /// Regular expressions that match a part of the answer.
    pub matches: Vec<String>,
    /// JSON Schema of the answer.
    pub schema: Option<Value>,
    /// A model that decides whether the answer meets criteria.
    pub judge: Option<JudgeExpectation>,
}

/// Criteria of an answer, and the model that decides on them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct JudgeExpectation {
    /// The model that decides.
    pub model: String,
    /// Criteria in words.
    pub criteria: String,
    /// Recording or script that replaces the model.
    #[serde(default)]
    pub replay: Option<PathBuf>,
}

/// Upper bounds of the work of a trial, sub-agents included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct BudgetExpectations {
    /// Tool calls.
    pub calls: Option<u64>,
    /// Requests to the model.
    pub turns: Option<u64>,
    /// All tokens, cached ones included.
    pub tokens: Option<u64>,
    /// Input tokens, cached ones included.
    pub input_tokens: Option<u64>,
    /// Output tokens.
    pub output_tokens: Option<u64>,
    /// US dollars. An unknown cost exceeds the bound.
    pub cost: Option<f64>,
    /// Duration in seconds.
    pub seconds: Option<f64>,
}

/// Expectations of the directness of the work.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct EfficiencyExpectations {
    /// Number of turns of direct work; the number of distinct calls by default.
    #[serde(default)]
    pub turns: Option<u64>,
    /// Minimum score, 0 to 1.
    #[serde(default = "half")]
    pub threshold: f64,
}

fn half() -> f64 {
    0.5
}

/// An effect that calls can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CallEffect {
    /// Reads files.
    Reads,
    /// Writes files.
    Writes,
    /// Runs programs.
    Executes,
    /// Sends requests over the network.
    Network,
    /// Starts sub-agents.
    Delegates,
}

impl CallEffect {
    /// Returns the name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Reads => "reads",
            Self::Writes => "writes",
            Self::Executes => "executes",
            Self::Network => "network",
            Self::Delegates => "delegates",
        }
    }
}

/// Returns whether a text is usable as one component of a path: letters, digits, `.`, `_` and `-`, not starting with a
/// dot, at most 64.
pub fn is_id(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    (1..=64).contains(&text.len()) && text.chars().all(is_plain) && !text.starts_with('.')
}

/// Returns whether a path stays in the directory that it is relative to.
pub fn is_inside(path: &str) -> bool {
    let mut components = Path::new(path).components().peekable();
    components.peek().is_some() && components.all(|component| matches!(component, std::path::Component::Normal(_)))
}

/// Expectations of the texts that tools return, sub-agents included.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct ResultExpectations {
    /// Texts that some result contains.
    pub contain: Vec<String>,
    /// Texts that no result, no call and no answer contains.
    pub lack: Vec<String>,
}

/// A tool of a plugin that scores a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct FunctionExpectation {
    /// Name of the plugin, or its file.
    pub plugin: String,
    /// The tool. It returns a number from 0 to 1, `true` or `false`, or an object with `score` and `finding`.
    pub tool: String,
    /// Arguments of the tool, in addition to `answer`.
    #[serde(default)]
    pub arguments: Map<String, Value>,
    /// Whether the tool also gets the trajectory, as the argument `trajectory`.
    #[serde(default)]
    pub trajectory: bool,
    /// Minimum score, 0 to 1.
    #[serde(default = "whole_score")]
    pub threshold: f64,
}

impl FunctionExpectation {
    /// Returns the function with a file of a plugin below `base`, which relative paths refer to.
    pub fn located(&self, base: &Path) -> Self {
        let is_file = self.plugin.ends_with(".wasm") || self.plugin.contains('/');
        let plugin = if is_file { base.join(&self.plugin).to_string_lossy().into_owned() } else { self.plugin.clone() };
        Self { plugin, ..self.clone() }
    }
}

/// Calls in the journal of a session that are repeated offline.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct RecordedCallExpectation {
    /// Component that repeats the calls of the plugin with its name; without one, all calls run on the recorded
    /// components.
    #[serde(default)]
    pub with: Option<PathBuf>,
    /// Minimum share of calls that are the same, 0 to 1.
    #[serde(default = "whole_score")]
    pub threshold: f64,
}

fn whole_score() -> f64 {
    1.0
}
