//! Formats that servers know, and regular expressions that only the description can name.

use super::MAX_DESCRIPTION;
use crate::clean;
use pinion_plugin_sdk::prelude::*;
use pinion_plugin_sdk::serde_json::Map;

/// Bytes of a regular expression that a description can name.
const MAX_NAMED_PATTERN: usize = 120;
/// Formats that all servers know or ignore.
pub(super) const FORMATS: [&str; 15] = [
    "date-time",
    "date",
    "time",
    "duration",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "uri",
    "uri-reference",
    "uuid",
    "int32",
    "int64",
    "float",
    "double",
];

/// Names a regular expression that was left out in the description, for the model.
pub(super) fn name_pattern(fields: &Map<String, Value>, fitted: &mut Map<String, Value>) {
    let Some(pattern) = fields.get("pattern").and_then(Value::as_str) else { return };
    let is_short = pattern.len() <= MAX_NAMED_PATTERN && clean::is_clean_line(pattern);
    if fitted.contains_key("pattern") || !is_short {
        return;
    }
    let rule = format!("must match the regular expression {pattern}");
    let text = match fitted.get("description").and_then(Value::as_str).filter(|text| !text.is_empty()) {
        Some(text) if text.len() + rule.len() < MAX_DESCRIPTION => format!("{text} ({rule})"),
        Some(_) => return,
        None => rule,
    };
    fitted.insert("description".to_owned(), json!(text));
}
