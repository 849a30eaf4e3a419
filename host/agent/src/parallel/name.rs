//! Names of strategies.

use serde::{Deserialize, Serialize};

/// The built-in strategies by name, for configs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChoiceName {
    /// [`crate::First`].
    #[default]
    First,
    /// [`crate::FewestTokens`].
    FewestTokens,
    /// [`crate::MostTokens`].
    MostTokens,
    /// [`crate::Judge`].
    Judge,
}
