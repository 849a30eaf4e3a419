//! The asks of manifests.

use pinion_egress::{InvalidRule, Rule};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;

/// The requests that a manifest asks for: `true`, or a list of rules. It bounds the grants that the user can give.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(try_from = "HttpAskForm", into = "HttpAskForm")]
pub enum HttpAsk {
    /// None.
    #[default]
    Nothing,
    /// Those that these rules cover; never empty.
    Rules(Vec<Rule>),
    /// All that the user grants, for plugins whose servers the user chooses.
    Any,
}

/// The form in manifests.
#[derive(Serialize, Deserialize)]
#[serde(untagged, expecting = "`http` must be true, false or a list of rules")]
enum HttpAskForm {
    Plain(bool),
    Rules(Vec<String>),
}

impl HttpAsk {
    /// The ask for the requests that these rules cover.
    pub(super) fn from_rules(rules: Vec<Rule>) -> Self {
        if rules.is_empty() { Self::Nothing } else { Self::Rules(rules) }
    }

    /// Returns the rules; empty if it asks for nothing or for all.
    pub(super) fn rules(&self) -> &[Rule] {
        match self {
            Self::Rules(rules) => rules,
            Self::Nothing | Self::Any => &[],
        }
    }

    /// Returns the rules for the requests that both `granted` and the ask cover.
    pub(super) fn limit(&self, granted: &[Rule]) -> Vec<Rule> {
        let asked = match self {
            Self::Nothing => return Vec::new(),
            Self::Any => return granted.to_vec(),
            Self::Rules(rules) => rules,
        };
        let mut limited = Vec::new();
        for rule in granted.iter().flat_map(|rule| asked.iter().filter_map(|asked| rule.limited_to(asked))) {
            if !limited.contains(&rule) {
                limited.push(rule);
            }
        }
        limited
    }

    /// Returns whether the ask covers everything that `other` asks for.
    fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Any, _) | (_, Self::Nothing) => true,
            (Self::Rules(own), Self::Rules(others)) => {
                others.iter().all(|other| own.iter().any(|rule| rule.includes(other)))
            }
            (Self::Nothing, _) | (Self::Rules(_), Self::Any) => false,
        }
    }
}

/// Two asks for the same requests are equal, regardless of their rules.
impl PartialEq for HttpAsk {
    fn eq(&self, other: &Self) -> bool {
        self.covers(other) && other.covers(self)
    }
}

impl Eq for HttpAsk {}

impl PartialOrd for HttpAsk {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        match (self.covers(other), other.covers(self)) {
            (true, true) => Some(Ordering::Equal),
            (true, false) => Some(Ordering::Greater),
            (false, true) => Some(Ordering::Less),
            (false, false) => None,
        }
    }
}

impl TryFrom<HttpAskForm> for HttpAsk {
    type Error = InvalidRule;

    fn try_from(form: HttpAskForm) -> Result<Self, InvalidRule> {
        match form {
            HttpAskForm::Plain(true) => Ok(Self::Any),
            HttpAskForm::Plain(false) => Ok(Self::Nothing),
            HttpAskForm::Rules(rules) => {
                Ok(Self::from_rules(rules.iter().map(|rule| rule.parse()).collect::<Result<_, _>>()?))
            }
        }
    }
}

impl From<HttpAsk> for HttpAskForm {
    fn from(ask: HttpAsk) -> Self {
        match ask {
            HttpAsk::Nothing => Self::Plain(false),
            HttpAsk::Any => Self::Plain(true),
            HttpAsk::Rules(rules) => Self::Rules(rules.iter().map(Rule::to_string).collect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(json: &str) -> HttpAsk {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn wider_asks_compare_greater_and_other_ones_not_at_all() {
        let one = ask(r#"["https://a.example/v1"]"#);
        assert!(ask("true") > one && one > ask("false") && ask("[]") == ask("false"));
        assert!(ask(r#"["https://a.example"]"#) > one && ask(r#"["https://a.example/v1", "b.example"]"#) > one);
        assert_eq!(ask(r#"["https://b.example"]"#).partial_cmp(&one), None);
        assert_eq!(ask(r#"["a.example/v1/*", "a.example/v1/x"]"#), one);
    }

    #[test]
    fn invalid_rule_of_a_manifest_is_named() {
        let error = serde_json::from_str::<HttpAsk>(r#"["https://a.example", "file:///etc"]"#).unwrap_err().to_string();
        assert!(error.contains("`file:///etc`") && error.contains("unknown scheme"), "{error}");
        assert!(serde_json::from_str::<HttpAsk>("3").unwrap_err().to_string().contains("list of rules"));
    }
}
