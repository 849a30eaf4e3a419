//! Changes to files of servers that leave everything else in them as it is.

use super::file::{MAX_FILE_BYTES, check_name};
use serde_json::{Map, Value, json};

/// A file of servers that is being changed. Other members, their order and unknown members stay; comments do not.
#[derive(Debug, Clone)]
pub struct Editor {
    document: Map<String, Value>,
}

/// The reason why a file cannot be changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct EditError(String);

impl Editor {
    /// Reads the text of a file; an empty one has no servers.
    ///
    /// # Errors
    /// The text is no JSON object, or has comments, which a change would remove.
    pub fn new(text: &str) -> Result<Self, EditError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        if text.trim().is_empty() {
            return Ok(Self { document: Map::new() });
        }
        if text.len() > MAX_FILE_BYTES {
            return Err(EditError(format!("it is longer than {MAX_FILE_BYTES} bytes")));
        }
        match serde_json::from_str(text) {
            Ok(Value::Object(document)) => {
                if document.get("mcpServers").is_some_and(|servers| !servers.is_object()) {
                    return Err(EditError("`mcpServers` is not an object".to_owned()));
                }
                Ok(Self { document })
            }
            Ok(_) => Err(EditError("it is not a JSON object".to_owned())),
            Err(error) if serde_json::from_str::<Value>(&super::members::without_comments(text)).is_ok() => {
                Err(EditError(format!("it has comments or trailing commas, which a change would remove ({error})")))
            }
            Err(error) => Err(EditError(error.to_string())),
        }
    }

    /// Returns the names of the servers in the order of the file.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.servers().into_iter().flat_map(|servers| servers.keys().map(String::as_str))
    }

    /// Returns the entry of a server as it is written.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.servers()?.get(name)
    }

    /// Adds a server, or replaces the one of this name at its place.
    ///
    /// # Errors
    /// The name is invalid.
    pub fn set(&mut self, name: &str, entry: Value) -> Result<(), EditError> {
        check_name(name).map_err(EditError)?;
        if let Some(servers) = self.servers_mut() {
            servers.insert(name.to_owned(), entry);
        }
        Ok(())
    }

    /// Removes a server. Returns whether there was one.
    pub fn remove(&mut self, name: &str) -> bool {
        self.servers_mut().is_some_and(|servers| servers.shift_remove(name).is_some())
    }

    /// Switches a server on or off. Returns whether there is one.
    pub fn set_enabled(&mut self, name: &str, enabled: bool) -> bool {
        let Some(entry) = self.entry(name) else { return false };
        entry.shift_remove("enabled");
        match enabled {
            true => entry.shift_remove("disabled"),
            false => entry.insert("disabled".to_owned(), Value::Bool(true)),
        };
        true
    }

    /// Switches one tool of a server on or off. Returns whether there is such a server.
    pub fn set_tool_enabled(&mut self, name: &str, tool: &str, enabled: bool) -> bool {
        let Some(entry) = self.entry(name) else { return false };
        let mut disabled = list(entry, "disabledTools");
        disabled.retain(|other| other != tool);
        if !enabled {
            disabled.push(tool.to_owned());
        }
        match disabled.is_empty() {
            true => entry.shift_remove("disabledTools"),
            false => entry.insert("disabledTools".to_owned(), json!(disabled)),
        };
        if enabled && entry.contains_key("enabledTools") {
            let mut chosen = list(entry, "enabledTools");
            if !chosen.iter().any(|other| other == tool) {
                chosen.push(tool.to_owned());
                entry.insert("enabledTools".to_owned(), json!(chosen));
            }
        }
        true
    }

    /// Returns the text of the file.
    #[must_use]
    pub fn text(&self) -> String {
        let text = serde_json::to_string_pretty(&self.document).unwrap_or_default();
        format!("{text}\n")
    }

    fn servers(&self) -> Option<&Map<String, Value>> {
        self.document.get("mcpServers")?.as_object()
    }

    fn servers_mut(&mut self) -> Option<&mut Map<String, Value>> {
        self.document.entry("mcpServers").or_insert_with(|| json!({})).as_object_mut()
    }

    fn entry(&mut self, name: &str) -> Option<&mut Map<String, Value>> {
        self.document.get_mut("mcpServers")?.get_mut(name)?.as_object_mut()
    }
}

fn list(entry: &Map<String, Value>, member: &str) -> Vec<String> {
    let values = entry.get(member).and_then(Value::as_array).into_iter().flatten();
    values.filter_map(Value::as_str).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        r#"{"z": 1, "mcpServers": {"b": {"command": "x", "odd": [1]}, "a": {"url": "http://h"}}, "c": {}}"#;

    #[test]
    fn changes_keep_other_members_and_their_order() {
        let mut editor = Editor::new(TEXT).unwrap();
        editor.set("new", json!({ "command": "y" })).unwrap();
        assert!(editor.set_enabled("b", false) && editor.set_enabled("b", true) && editor.set_enabled("a", false));
        assert!(editor.set_tool_enabled("b", "t", false) && !editor.set_tool_enabled("none", "t", false));
        assert!(editor.remove("a") && !editor.remove("a"));
        let expected = r#"{"z":1,"mcpServers":{"b":{"command":"x","odd":[1],"disabledTools":["t"]},"new":{"command":"y"}},"c":{}}"#;
        let value: Value = serde_json::from_str(&editor.text()).unwrap();
        assert_eq!(value.to_string(), expected);
        assert_eq!(editor.names().collect::<Vec<_>>(), ["b", "new"]);
    }

    #[test]
    fn switching_a_tool_on_adds_it_to_the_chosen_ones() {
        let mut editor =
            Editor::new(r#"{"mcpServers": {"a": {"enabledTools": ["x"], "disabledTools": ["y"]}}}"#).unwrap();
        assert!(editor.set_tool_enabled("a", "y", true));
        assert_eq!(editor.get("a").unwrap().to_string(), r#"{"enabledTools":["x","y"]}"#);
    }

    #[test]
    fn files_that_would_lose_something_are_not_changed() {
        assert!(Editor::new("{} // note").unwrap_err().to_string().contains("comments"));
        assert!(Editor::new("[]").is_err() && Editor::new("{").is_err() && Editor::new("{\"mcpServers\": 1}").is_err());
        assert_eq!(Editor::new(" ").unwrap().text(), "{}\n");
        assert!(Editor::new("").unwrap().set("a b/", json!({})).is_err());
    }
}
