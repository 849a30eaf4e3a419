//! The member `extra` of an assignment: settings that came after the contract was settled.

use pinion_protocol::delegation::AgentStart;
use serde::Deserialize;
use serde_json::Value;

/// Bytes of the JSON.
const MAX_BYTES: usize = 64 * 1024;

/// The settings. Unknown members are ignored, as the contract says.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct AssignmentExtra {
    /// Conversation that the sub-agent starts from.
    context: Option<StartWord>,
    /// Name of its model.
    pub model: Option<String>,
    /// The call returns as soon as it has started.
    pub background: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum StartWord {
    None,
    Conversation,
}

impl AssignmentExtra {
    /// Reads the settings.
    ///
    /// # Errors
    /// It is no JSON object, or a known member has a wrong value.
    pub fn parse(extra: Option<&str>) -> Result<Self, String> {
        match extra {
            None => Ok(Self::default()),
            Some(extra) if extra.len() > MAX_BYTES => {
                Err(format!("`extra` has {} bytes, of at most {MAX_BYTES}", extra.len()))
            }
            Some(extra) => {
                // A list is no object, although it could stand for the members in order.
                let object = serde_json::from_str(extra).map(Value::Object);
                object.and_then(Self::deserialize).map_err(|error| format!("invalid `extra`: {error}"))
            }
        }
    }

    /// Returns whether the sub-agent sees the agent's conversation.
    pub fn reads_conversation(&self) -> bool {
        self.start() == AgentStart::Conversation
    }

    /// Returns the conversation that the sub-agent starts from.
    pub fn start(&self) -> AgentStart {
        match self.context {
            Some(StartWord::Conversation) => AgentStart::Conversation,
            Some(StartWord::None) | None => AgentStart::Empty,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_members_are_ignored_and_wrong_values_refused() {
        let parse = |extra| AssignmentExtra::parse(Some(extra));
        let both = parse(r#"{"context":"conversation","model":"opus","background":true,"later":[1]}"#).unwrap();
        assert_eq!((both.start(), both.model.as_deref()), (AgentStart::Conversation, Some("opus")));
        assert!(both.background);
        assert_eq!(AssignmentExtra::parse(None).unwrap(), AssignmentExtra::default());
        assert!(!parse(r#"{"context":"none"}"#).unwrap().reads_conversation());
        for wrong in ["", "[]", r#"{"context":"all"}"#, r#"{"model":7}"#] {
            assert!(parse(wrong).unwrap_err().starts_with("invalid `extra`: "), "{wrong}");
        }
    }
}
