//! The answer that a case expects of a hook, in the words of the contract.

use pinion_plugin_test::Hooked;
use serde::Deserialize;
use serde_json::Value;

/// The names of verdicts.
const NAMES: &[&str] = &["proceed", "deny", "ask", "rewrite", "revise", "warn", "reject", "add-context", "fail"];

/// The expected answer: its name, or a table of its name and a part of its text, or the new arguments.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "Value")]
pub(super) struct ExpectedVerdict {
    name: String,
    value: Option<Value>,
}

impl TryFrom<Value> for ExpectedVerdict {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        let verdict = match value {
            Value::String(name) => Self { name, value: None },
            Value::Object(members) if members.len() == 1 => {
                let mut members = members.into_iter();
                let Some((name, value)) = members.next() else { return Err(wrong()) };
                Self { name, value: Some(value) }
            }
            _ => return Err(wrong()),
        };
        match NAMES.contains(&verdict.name.as_str()) {
            true => Ok(verdict),
            false => Err(format!("unknown verdict `{}`: {}", verdict.name, wrong())),
        }
    }
}

fn wrong() -> String {
    format!("a verdict is one of {}, or a table such as `{{ deny = \"part of the text\" }}`", NAMES.join(", "))
}

/// Returns the name of a hook's answer, and its value.
fn named(hooked: &Hooked) -> (&'static str, Value) {
    match hooked {
        Hooked::Proceeds => ("proceed", Value::Null),
        Hooked::Denies(text) => ("deny", text.as_str().into()),
        Hooked::Asks(text) => ("ask", text.as_str().into()),
        Hooked::Rewrites(arguments) => ("rewrite", arguments.clone()),
        Hooked::Revises(output) => ("revise", output.to_text().into()),
        Hooked::Warns(text) => ("warn", text.as_str().into()),
        Hooked::Rejects(text) => ("reject", text.as_str().into()),
        Hooked::Adds(text) => ("add-context", text.as_str().into()),
        Hooked::Fails(text) => ("fail", text.as_str().into()),
        _ => ("unknown", Value::Null),
    }
}

/// Returns the text of a hook's answer.
pub(super) fn text(hooked: &Hooked) -> String {
    match named(hooked).1 {
        Value::Null => String::new(),
        Value::String(text) => text,
        json => json.to_string(),
    }
}

impl ExpectedVerdict {
    /// Returns whether a hook is expected to fail.
    pub(super) fn is_failure(&self) -> bool {
        self.name == "fail"
    }

    /// Describes how a hook's answer differs.
    pub(super) fn difference(&self, hooked: Option<&Hooked>) -> Option<String> {
        let Some(hooked) = hooked else { return Some("a verdict is expected, and no hook was called".to_owned()) };
        let (name, value) = named(hooked);
        let is_same = name == self.name
            && match (&self.value, &value) {
                (None, _) => true,
                (Some(Value::String(part)), Value::String(text)) => text.contains(part.as_str()),
                (Some(expected), value) => expected == value,
            };
        let shown = |name: &str, value: &Value| match value {
            Value::Null => format!("`{name}`"),
            value => format!("`{name}` with {value}"),
        };
        let expected = shown(&self.name, self.value.as_ref().unwrap_or(&Value::Null));
        (!is_same).then(|| format!("expected the verdict {expected}, got {}", shown(name, &value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn verdicts_are_compared_by_name_and_part() {
        let differs = |verdict: Value, hooked: &Hooked| {
            serde_json::from_value::<ExpectedVerdict>(verdict).unwrap().difference(Some(hooked))
        };
        let denied = Hooked::Denies("not on Mondays".to_owned());
        assert_eq!(differs(json!("deny"), &denied), None);
        assert_eq!(differs(json!({ "deny": "Monday" }), &denied), None);
        assert!(
            differs(json!({ "deny": "Tuesday" }), &denied).unwrap().ends_with("got `deny` with \"not on Mondays\"")
        );
        assert!(differs(json!("proceed"), &denied).is_some());
        assert_eq!(differs(json!({ "rewrite": { "a": 1 } }), &Hooked::Rewrites(json!({ "a": 1 }))), None);
        let unknown = serde_json::from_value::<ExpectedVerdict>(json!("allow")).unwrap_err().to_string();
        assert!(unknown.contains("unknown verdict `allow`: a verdict is one of proceed, deny"), "{unknown}");
    }
}
