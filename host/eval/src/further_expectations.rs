//! Expectations of tool results, and functions of plugins that score a trial.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::path::Path;

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

fn whole_score() -> f64 {
    1.0
}
