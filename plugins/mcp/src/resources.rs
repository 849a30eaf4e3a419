//! The tool that lists and reads resources, and finds values for the variables of their templates.

use crate::catalog::RESOURCES;
use crate::{failed, result};
use listing::clean;
use pinion_plugin_sdk::mcp;
use pinion_plugin_sdk::prelude::*;
use std::collections::BTreeMap;

/// Resources that a list shows.
const MAX_LISTED: usize = 200;
/// Values of a variable that a list shows; the protocol allows no more in an answer. Bytes of a value.
const MAX_VALUES: usize = 100;
const MAX_VALUE: usize = 500;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The server.
    server: String,
    /// `complete` lists values that a variable of a template can have.
    action: Action,
    /// The address of the resource to read, or the template.
    uri: Option<String>,
    /// The cursor with which the list before said that it continues.
    cursor: Option<String>,
    /// For `complete`: the name of the variable.
    variable: Option<String>,
    /// For `complete`: the beginning of the value.
    value: Option<String>,
    /// For `complete`: values of other variables of the template.
    others: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize, JsonSchema, Clone, Copy)]
#[serde(rename_all = "kebab-case")]
enum Action {
    List,
    Templates,
    Read,
    Complete,
}

/// The tool.
pub(crate) fn tool() -> Tool {
    Tool::new(RESOURCES, "Lists and reads the resources of MCP servers: files, records and other data.", resources)
        .label("MCP resources")
        .executes()
        .network()
        .approved_by(&["server"])
}

fn resources(arguments: Arguments, _call: &Call) -> Result<Output> {
    let Arguments { server, action, uri, cursor, variable, value, others } = arguments;
    let cursor = cursor.as_deref();
    match action {
        Action::Read => {
            let uri = uri.ok_or_else(|| Error::invalid_input("`read` requires `uri`"))?;
            let contents = mcp::read_resource(&server, &uri).map_err(|error| failed(&server, error))?;
            Ok(result::of_resource(&contents, &|text| mcp::keep(text)))
        }
        Action::List => {
            let page = mcp::list_resources(&server, cursor).map_err(|error| failed(&server, error))?;
            Ok(listed(&page, "resources", "uri").into())
        }
        Action::Templates => {
            let page = mcp::list_resource_templates(&server, cursor).map_err(|error| failed(&server, error))?;
            Ok(listed(&page, "resourceTemplates", "uriTemplate").into())
        }
        Action::Complete => {
            let missing = || Error::invalid_input("`complete` requires the template as `uri`, and `variable`");
            let (uri, name) = uri.zip(variable).ok_or_else(missing)?;
            let mut argument = json!({ "name": name, "value": value.unwrap_or_default() });
            if let Some(others) = others {
                argument["context"] = json!({ "arguments": others });
            }
            let reference = json!({ "type": "ref/resource", "uri": uri });
            let found = mcp::complete(&server, &reference, &argument).map_err(|error| failed(&server, error))?;
            Ok(values(&found).into())
        }
    }
}

fn listed(page: &Value, list: &str, address: &str) -> String {
    let resources = page.get(list).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let mut text: String = resources.iter().take(MAX_LISTED).map(|resource| line(resource, address)).collect();
    if resources.is_empty() {
        text.push_str("The server has none.\n");
    }
    if resources.len() > MAX_LISTED {
        text.push_str(&format!("[{} more]\n", resources.len() - MAX_LISTED));
    }
    if let Some(cursor) = page.get("nextCursor").and_then(Value::as_str) {
        text.push_str(&format!(
            "[there are more: continue with the cursor {}]\n",
            clean::line(&json!(cursor).to_string(), 4_000)
        ));
    }
    text
}

/// Lists the values of an answer, one a line. Values that a line would change are left out: they would be other ones.
fn values(result: &Value) -> String {
    let all = result.pointer("/completion/values").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let fits = |value: &&str| value.len() <= MAX_VALUE && clean::is_clean_line(value);
    let shown: Vec<&str> = all.iter().filter_map(Value::as_str).filter(fits).take(MAX_VALUES).collect();
    let mut text: String = shown.iter().map(|value| format!("{value}\n")).collect();
    let has_more = result.pointer("/completion/hasMore").and_then(Value::as_bool) == Some(true);
    if has_more || shown.len() < all.len() {
        text.push_str("[there are more: continue with a longer beginning]\n");
    } else if shown.is_empty() {
        text.push_str("The server knows no value that begins so.\n");
    }
    text
}

fn line(resource: &Value, address: &str) -> String {
    let text = |name: &str| resource.get(name).and_then(Value::as_str).unwrap_or_default();
    let said = [text("title"), text("name"), text("description")].into_iter().find(|said| !said.is_empty());
    format!("{}: {}\n", clean::line(text(address), 1_000), clean::line(said.unwrap_or_default(), 300))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_resource_is_one_line() {
        let page = json!({ "resources": [{ "uri": "a://b\n", "name": "x\u{1b}[2J\ny" }, { "uri": "c" }], "nextCursor": "n\"1" });
        assert_eq!(
            listed(&page, "resources", "uri"),
            "a://b: x�[2J y\nc: \n[there are more: continue with the cursor \"n\\\"1\"]\n"
        );
        assert_eq!(listed(&json!({}), "resources", "uri"), "The server has none.\n");
    }

    #[test]
    fn values_are_lines_and_those_that_are_none_are_left_out() {
        let answer = |values: Value| json!({ "completion": { "values": values, "hasMore": false } });
        let more = "[there are more: continue with a longer beginning]\n";
        assert_eq!(values(&answer(json!(["Oslo", "Ob lo"]))), "Oslo\nOb lo\n");
        assert_eq!(
            values(&answer(json!(["a\nb", "\u{1b}[2J", 7, "x".repeat(MAX_VALUE + 1), "c"]))),
            format!("c\n{more}")
        );
        assert_eq!(values(&answer(json!(vec!["v"; 300]))).lines().count(), MAX_VALUES + 1);
        assert_eq!(values(&json!({ "completion": { "values": ["a"], "hasMore": true } })), format!("a\n{more}"));
        assert_eq!(values(&json!(null)), "The server knows no value that begins so.\n");
    }
}
