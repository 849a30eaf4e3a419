//! Servers in the files of other programs, converted to entries of `mcpServers`.

use super::file::check_name;
use super::members::without_comments;
use serde_json::{Map, Value, json};

/// The form of a file of another program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportFormat {
    /// `mcpServers`: Claude Code, Claude Desktop, Cursor and others. In `~/.claude.json`, `projects` has more servers.
    McpServers,
    /// `servers` and `inputs`: VS Code.
    VsCode,
    /// TOML with `[mcp_servers.NAME]`: codex.
    Codex,
}

/// A server found in a file.
#[derive(Debug, Clone, PartialEq)]
pub struct ImportedServer {
    /// Its name.
    pub name: String,
    /// Its entry for `mcpServers`.
    pub entry: Value,
    /// Texts about settings that could not be taken over.
    pub notes: Vec<String>,
}

/// Reads the servers in a file of another program. `project` selects one of `projects` in `~/.claude.json`.
///
/// # Errors
/// The file is invalid.
pub fn import(text: &str, format: ImportFormat, project: Option<&str>) -> Result<Vec<ImportedServer>, String> {
    let document = match format {
        ImportFormat::Codex => {
            let table: toml::Table = toml::from_str(text).map_err(|error| error.to_string())?;
            serde_json::to_value(table).map_err(|error| error.to_string())?
        }
        ImportFormat::McpServers | ImportFormat::VsCode => {
            let text = without_comments(text.strip_prefix('\u{feff}').unwrap_or(text));
            serde_json::from_str(&text).map_err(|error| error.to_string())?
        }
    };
    let servers: Vec<(&String, &Value)> = match format {
        ImportFormat::Codex => members(document.get("mcp_servers")).collect(),
        ImportFormat::VsCode => {
            let settings = document.get("mcp").and_then(|mcp| mcp.get("servers"));
            members(document.get("servers").or(settings)).collect()
        }
        ImportFormat::McpServers => {
            let of_project = project.and_then(|project| document.get("projects")?.get(project)?.get("mcpServers"));
            members(document.get("mcpServers")).chain(members(of_project)).collect()
        }
    };
    let mut found: Vec<ImportedServer> = Vec::new();
    for (name, value) in servers {
        let Some(entry) = value.as_object() else { continue };
        let name = usable_name(name);
        if found.iter().any(|other| other.name == name) {
            continue;
        }
        found.push(match format {
            ImportFormat::Codex => codex(name, entry),
            ImportFormat::McpServers | ImportFormat::VsCode => json_entry(name, entry),
        });
    }
    Ok(found)
}

fn members(value: Option<&Value>) -> impl Iterator<Item = (&String, &Value)> {
    value.and_then(Value::as_object).into_iter().flatten()
}

/// Replaces characters that a name of a server cannot have.
fn usable_name(name: &str) -> String {
    if check_name(name).is_ok() {
        return name.to_owned();
    }
    let clean: String = name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).collect();
    let clean: String = clean.trim_matches('-').chars().take(64).collect();
    if clean.is_empty() { "server".to_owned() } else { clean }
}

/// Members of JSON files that mean the same here.
const SAME: &[&str] = &[
    "type",
    "command",
    "args",
    "env",
    "cwd",
    "url",
    "httpUrl",
    "serverUrl",
    "headers",
    "disabled",
    "enabled",
    "enabledTools",
    "disabledTools",
    "includeTools",
    "excludeTools",
    "network",
    "write",
    "startupTimeoutSeconds",
    "callTimeoutSeconds",
    "idleTimeoutSeconds",
    "oauth",
    "description",
];

fn json_entry(name: String, entry: &Map<String, Value>) -> ImportedServer {
    let mut notes = Vec::new();
    let mut taken = Map::new();
    for (member, value) in entry {
        match member.as_str() {
            "tools" if value == &json!(["*"]) => {}
            "gallery" | "version" | "dev" => {}
            member if SAME.contains(&member) => {
                taken.insert(member.to_owned(), variables(value, &mut notes));
            }
            "envFile" => notes.push("`envFile` is not read: name its variables in `env`".to_owned()),
            "autoApprove" | "alwaysAllow" | "trust" => {
                notes.push(format!("`{member}` has no effect: approving calls is up to you"));
            }
            _ => notes.push(format!("`{member}` has no effect")),
        }
    }
    ImportedServer { name, entry: Value::Object(taken), notes }
}

/// Rewrites the variables of editors. Inputs that an editor asks for have no counterpart.
fn variables(value: &Value, notes: &mut Vec<String>) -> Value {
    match value {
        Value::String(text) => {
            let mut text = text.replace("${env:", "${");
            if text.contains("${input:") {
                notes.push("`${input:…}` is not supported: it becomes an environment variable to set".to_owned());
                text = inputs_as_variables(&text);
            }
            Value::String(text.replace("${workspaceRoot}", "${workspaceFolder}"))
        }
        Value::Array(values) => values.iter().map(|value| variables(value, notes)).collect(),
        Value::Object(members) => members.iter().map(|(name, value)| (name.clone(), variables(value, notes))).collect(),
        other => other.clone(),
    }
}

/// Turns `${input:api-key}` into `${API_KEY}`.
fn inputs_as_variables(text: &str) -> String {
    let mut parts = text.split("${input:");
    let mut replaced = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once('}').unwrap_or((part, ""));
        let upper = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
        let name: String = name.chars().map(upper).collect();
        replaced.push_str(&format!("${{{name}}}{rest}"));
    }
    replaced
}

fn codex(name: String, entry: &Map<String, Value>) -> ImportedServer {
    let mut notes = Vec::new();
    let mut taken = Map::new();
    let mut put = |member: &str, value: Value| {
        taken.insert(member.to_owned(), value);
    };
    let mut env = entry.get("env").and_then(Value::as_object).cloned().unwrap_or_default();
    let mut headers = entry.get("http_headers").and_then(Value::as_object).cloned().unwrap_or_default();
    for (member, value) in entry {
        match member.as_str() {
            "command" | "args" | "cwd" | "url" => put(member, value.clone()),
            "env" | "http_headers" => {}
            "env_vars" => {
                for name in value.as_array().into_iter().flatten().filter_map(Value::as_str) {
                    env.entry(name).or_insert_with(|| json!(format!("${{{name}:-}}")));
                }
            }
            "env_http_headers" => {
                for (header, variable) in members(Some(value)) {
                    if let Some(variable) = variable.as_str() {
                        headers.insert(header.clone(), json!(format!("${{{variable}}}")));
                    }
                }
            }
            "bearer_token_env_var" => {
                if let Some(variable) = value.as_str() {
                    headers.insert("Authorization".to_owned(), json!(format!("Bearer ${{{variable}}}")));
                }
            }
            "enabled" => {
                if value == &Value::Bool(false) {
                    put("disabled", Value::Bool(true));
                }
            }
            "enabled_tools" => put("enabledTools", value.clone()),
            "disabled_tools" => put("disabledTools", value.clone()),
            "startup_timeout_sec" => put("startupTimeoutSeconds", value.clone()),
            "startup_timeout_ms" => {
                if let Some(milliseconds) = value.as_f64() {
                    put("startupTimeoutSeconds", json!(milliseconds / 1000.0));
                }
            }
            "tool_timeout_sec" => put("callTimeoutSeconds", value.clone()),
            "scopes" => put("oauth", json!({ "scopes": value })),
            _ => notes.push(format!("`{member}` has no effect")),
        }
    }
    if !env.is_empty() {
        put("env", Value::Object(env));
    }
    if !headers.is_empty() {
        put("headers", Value::Object(headers));
    }
    ImportedServer { name, entry: Value::Object(taken), notes }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(text: &str, format: ImportFormat, project: Option<&str>) -> Vec<(String, String, usize)> {
        let found = import(text, format, project).unwrap();
        found.into_iter().map(|found| (found.name, found.entry.to_string(), found.notes.len())).collect()
    }

    #[test]
    fn codex_servers_become_entries() {
        let text = "[mcp_servers.docs]\ncommand = \"npx\"\nargs = [\"-y\"]\nenv_vars = [\"A\"]\nstartup_timeout_sec = 20\n\
                    [mcp_servers.docs.env]\nB = \"1\"\n[mcp_servers.web]\nurl = \"https://h\"\nenabled = false\n\
                    bearer_token_env_var = \"T\"\nodd = 1\n";
        let found = entries(text, ImportFormat::Codex, None);
        let entry = |at: usize| serde_json::from_str::<Value>(&found[at].1).unwrap();
        let env = json!({ "B": "1", "A": "${A:-}" });
        assert_eq!(entry(0), json!({ "command": "npx", "args": ["-y"], "startupTimeoutSeconds": 20, "env": env }));
        let headers = json!({ "Authorization": "Bearer ${T}" });
        assert_eq!(entry(1), json!({ "url": "https://h", "disabled": true, "headers": headers }));
        assert_eq!(found[1].2, 1);
    }

    #[test]
    fn servers_of_editors_become_entries_and_inputs_variables() {
        let text = r#"{"inputs": [{"id": "api-key"}], // keys
            "servers": {"My Server/1": {"type": "stdio", "command": "x", "env": {"K": "${input:api-key}", "H": "${env:HOME}"},
                        "envFile": ".env"}}}"#;
        let found = entries(text, ImportFormat::VsCode, None);
        assert_eq!(found[0].0, "My-Server-1");
        assert_eq!(found[0].1, r#"{"type":"stdio","command":"x","env":{"K":"${API_KEY}","H":"${HOME}"}}"#);
        assert_eq!(found[0].2, 2);
    }

    #[test]
    fn servers_of_a_project_are_found_in_the_users_file() {
        let text = r#"{"mcpServers": {"a": {"command": "x"}}, "projects": {"/p": {"mcpServers": {"b": {"url": "http://h"}, "a": {}}}}}"#;
        let names =
            |project| entries(text, ImportFormat::McpServers, project).into_iter().map(|e| e.0).collect::<Vec<_>>();
        assert_eq!((names(None), names(Some("/p"))), (vec!["a".to_owned()], vec!["a".to_owned(), "b".to_owned()]));
        assert!(
            import("{", ImportFormat::McpServers, None).is_err() && import("[", ImportFormat::Codex, None).is_err()
        );
    }
}
