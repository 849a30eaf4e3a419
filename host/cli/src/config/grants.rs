//! Grants, as the config and `grants.toml` have them.

use pinion_plugin_runtime::{Access, AgentsGrant};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(crate) struct FileGrants {
    /// Folders, absolute or from the workspace.
    pub(crate) files: BTreeMap<PathBuf, Access>,
    pub(crate) process: FileProcessGrant,
    pub(crate) catalog: bool,
    pub(crate) agents: FileAgentsGrant,
}

/// `process = true`, `false`, or the names of variables.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum FileProcessGrant {
    /// With the usual environment, or not at all.
    Granted(bool),
    /// With these variables.
    With(Vec<String>),
}

impl Default for FileProcessGrant {
    fn default() -> Self {
        Self::Granted(false)
    }
}

/// `agents = true`, `false`, or the names of the tools that they may use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum FileAgentsGrant {
    /// With all tools that the agent has, or not at all.
    Granted(bool),
    /// With these tools.
    With(BTreeSet<String>),
}

impl Default for FileAgentsGrant {
    fn default() -> Self {
        Self::Granted(false)
    }
}

impl FileAgentsGrant {
    pub(crate) fn grant(&self) -> Option<AgentsGrant> {
        match self {
            Self::Granted(false) => None,
            Self::Granted(true) => Some(AgentsGrant::default()),
            Self::With(tools) => Some(AgentsGrant { tools: Some(tools.clone()) }),
        }
    }
}
