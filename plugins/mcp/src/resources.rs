//! The tool that lists and reads resources.

use crate::catalog::RESOURCES;
use crate::{clean, failed, result};
use pinion_plugin_sdk::mcp;
use pinion_plugin_sdk::prelude::*;

/// Resources that a list shows.
const MAX_LISTED: usize = 200;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The server.
    server: String,
    /// What to do.
    action: Action,
    /// The address of the resource to read.
    uri: Option<String>,
    /// Where a list continues, as the list before says.
    cursor: Option<String>,
}

#[derive(Deserialize, JsonSchema, Clone, Copy)]
#[serde(rename_all = "kebab-case")]
enum Action {
    List,
    Templates,
    Read,
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
    let Arguments { server, action, uri, cursor } = arguments;
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
}
