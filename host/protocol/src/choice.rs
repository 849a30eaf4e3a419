//! Names of the built-in strategies that choose one of several outcomes.

use serde::{Deserialize, Serialize};

/// The built-in strategies by name, for configs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChoiceName {
    /// The first branch that succeeded.
    #[default]
    First,
    /// The branch that used the fewest tokens.
    FewestTokens,
    /// The branch that used the most tokens.
    MostTokens,
    /// The branch that a model judges to be the best.
    Judge,
}
