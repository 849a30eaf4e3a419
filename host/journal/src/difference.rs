//! The first difference between a recorded call and its repetition.

use std::fmt;

/// The result of repeating one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplayVerdict {
    /// The same imports in the same order, the same result and, for the same component, the same fuel.
    Same,
    /// The first difference.
    Differs(CallDifference),
    /// The call could not be repeated, for this reason.
    Skipped(String),
}

/// The first difference of a call. Values are printed as in the text format of the component model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallDifference {
    /// The component called another import, or the same with other arguments.
    Import {
        /// The position of the import in the call, from 1.
        position: usize,
        /// The recorded call; `None` if the recorded call ended before.
        recorded: Option<String>,
        /// The repeated call; `None` if the repeated call ended before.
        repeated: Option<String>,
    },
    /// The call returned another result.
    Outcome {
        /// The recorded result.
        recorded: String,
        /// The repeated result.
        repeated: String,
    },
    /// The call used other fuel.
    Fuel {
        /// The recorded fuel.
        recorded: u64,
        /// The repeated fuel.
        repeated: u64,
    },
}

impl fmt::Display for CallDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (title, recorded, repeated) = match self {
            Self::Import { position, recorded, repeated } => {
                let ended = || "(the call ended)".to_owned();
                let (recorded, repeated) = (recorded.clone(), repeated.clone());
                (format!("import {position}"), recorded.unwrap_or_else(ended), repeated.unwrap_or_else(ended))
            }
            Self::Outcome { recorded, repeated } => ("result".to_owned(), recorded.clone(), repeated.clone()),
            Self::Fuel { recorded, repeated } => ("fuel".to_owned(), recorded.to_string(), repeated.to_string()),
        };
        let (recorded, repeated) = around_difference(&recorded, &repeated);
        write!(f, "{title}\n- {recorded}\n+ {repeated}")
    }
}

/// Characters to show on each side of the first difference of two long texts.
const CONTEXT: usize = 200;

/// Cuts two texts to the surroundings of their first difference.
fn around_difference(one: &str, other: &str) -> (String, String) {
    let same = one.chars().zip(other.chars()).take_while(|(one, other)| one == other).count();
    let from = same.saturating_sub(CONTEXT);
    let cut = |text: &str| {
        let shown: String = text.chars().skip(from).take(2 * CONTEXT).collect();
        let (before, after) = (if from > 0 { "…" } else { "" }, text.chars().count() > from + 2 * CONTEXT);
        // One line for each text, so that the signs before them stay readable.
        format!("{before}{}{}", shown.escape_debug().to_string().replace("\\\"", "\""), if after { "…" } else { "" })
    };
    (cut(one), cut(other))
}
