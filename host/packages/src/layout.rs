//! The formats of packages: Agent Plugins 1.0, Claude's and Codex' plugins, and components alone.
//!
//! All of them are read without expanding, fetching or running anything. A package may have the manifests of several
//! formats; if two of them name different packages or versions, it is refused, because a reviewer may have read the other
//! one.

use crate::files::PackageFiles;
use crate::hooks::{PackagedHook, read_hooks};
use crate::json::parse_strict;
use crate::package::{PackageError, is_package_name};
use crate::servers::{PackagedServer, ServerList};
use serde_json::Value;

/// Manifest of Agent Plugins 1.0.
pub(crate) const AGENT_PLUGIN: &str = "plugin.json";
/// Manifests of the formats whose other members this program does not use.
pub(crate) const VENDORS: &[&str] = &[".claude-plugin/plugin.json", ".codex-plugin/plugin.json", ".plugin/plugin.json"];
/// The schema that version 1.0.0 names.
const SCHEMA: &str = "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json";
/// Members of version 1.0.0, which has no others.
const MEMBERS: &[&str] = &[
    "$schema",
    "name",
    "version",
    "description",
    "author",
    "homepage",
    "repository",
    "license",
    "keywords",
    "extensions",
];
/// Directory of the parts of a package that only this program uses.
pub(crate) const OWN_DIRECTORY: &str = "dev.pinion";
/// The member of `extensions` for this program, which can give servers a network (`mcpServers.NAME.network`).
const EXTENSION: &str = "dev.pinion";
/// Directories of prompts; Claude calls them commands.
const PROMPTS: &[&str] = &["prompts", "commands"];
/// Parts of other programs' plugins that this program does not use.
const UNUSED: &[(&str, &str)] = &[
    (".lsp.json", "language servers are not supported"),
    ("agents", "its agents are not supported"),
    ("bin", "its programs are not put on the PATH"),
    ("output-styles", "output styles are not supported"),
];

/// The parts of a package by their places.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    pub(crate) name: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) components: Vec<String>,
    pub(crate) has_skills: bool,
    pub(crate) prompts: Vec<String>,
    pub(crate) servers: Vec<PackagedServer>,
    pub(crate) hooks: Vec<PackagedHook>,
    pub(crate) notices: Vec<String>,
}

/// Finds the parts of a package.
pub(crate) fn read_layout(files: &PackageFiles) -> Result<Layout, PackageError> {
    let mut layout = Layout::default();
    let (mut first, mut access) = (None, Value::Null);
    let (mut servers, mut hooks) = (ServerList::default(), Vec::new());
    if let Some(text) = files.get(AGENT_PLUGIN) {
        let manifest = parse(AGENT_PLUGIN, text)?;
        check_agent_plugin(&manifest, &mut layout.notices).map_err(|problem| broken(AGENT_PLUGIN, problem))?;
        layout.merge_manifest(AGENT_PLUGIN, &manifest, &mut first)?;
        access = manifest["extensions"][EXTENSION]["mcpServers"].clone();
    }
    servers.read_files(files, &access, &mut layout.notices)?;
    for path in VENDORS {
        if let Some(text) = files.get(path) {
            let manifest = parse(path, text)?;
            layout.merge_manifest(path, &manifest, &mut first)?;
            servers.read_member(files, path, &manifest["mcpServers"], &mut layout.notices)?;
            hooks.push(((*path).to_owned(), manifest["hooks"].clone()));
        }
    }
    layout.servers = servers.servers;
    layout.hooks = read_hooks(files, &hooks, &mut layout.notices);
    let is_ours = |path: &str| {
        path.strip_prefix(OWN_DIRECTORY).is_some_and(|rest| rest.starts_with('/') && rest.matches('/').count() == 1)
    };
    let components = files.paths().filter(|path| path.ends_with(".wasm"));
    let components = components.filter(|path| is_ours(path) || (first.is_none() && !path.contains('/')));
    layout.components = components.map(str::to_owned).collect();
    layout.has_skills = files.paths().any(is_skill);
    let has_prompts = |directory: &&&str| {
        let is_prompt = |path: &str| {
            path.strip_prefix(**directory)
                .and_then(|rest| rest.strip_prefix('/'))
                .is_some_and(|name| !name.contains('/') && name.ends_with(".md"))
        };
        files.paths().any(is_prompt)
    };
    layout.prompts = PROMPTS.iter().filter(has_prompts).map(|directory| (*directory).to_owned()).collect();
    for (path, reason) in UNUSED {
        let is_there =
            |found: &str| found == *path || found.strip_prefix(path).is_some_and(|rest| rest.starts_with('/'));
        if files.paths().any(is_there) {
            layout.notices.push(format!("`{path}` is not used: {reason}"));
        }
    }
    Ok(layout)
}

impl Layout {
    /// Takes the name, version and description of a manifest, which have to agree with the first one.
    fn merge_manifest(&mut self, path: &str, manifest: &Value, first: &mut Option<String>) -> Result<(), PackageError> {
        let text = |member: &str| match manifest.get(member) {
            None => Ok(None),
            Some(Value::String(text)) if text.len() <= 1024 && !text.contains(char::is_control) => {
                Ok(Some(text.clone()))
            }
            Some(_) => Err(broken(path, format!("`{member}` is not a line of text"))),
        };
        let (name, version, description) = (text("name")?, text("version")?, text("description")?);
        let name = name.ok_or_else(|| broken(path, "`name` is missing".to_owned()))?;
        if !is_package_name(&name) {
            return Err(broken(path, format!("`{}` is not a valid name", name.escape_debug())));
        }
        match first {
            None => {
                (self.name, self.version, self.description) = (Some(name), version, description);
                *first = Some(path.to_owned());
            }
            Some(first) => {
                let is_same = self.name.as_ref() == Some(&name)
                    && (version.is_none() || self.version.is_none() || self.version == version);
                if !is_same {
                    return Err(broken(path, format!("its name or version differs from `{first}`")));
                }
                self.version = self.version.take().or(version);
            }
        }
        Ok(())
    }
}

fn is_skill(path: &str) -> bool {
    let mut names = path.split('/');
    names.next() == Some("skills")
        && names.next().is_some()
        && names.next() == Some("SKILL.md")
        && names.next().is_none()
}

fn parse(path: &str, text: &[u8]) -> Result<Value, PackageError> {
    let value = parse_strict(text).map_err(|problem| broken(path, problem))?;
    if value.is_object() { Ok(value) } else { Err(broken(path, "it is not an object".to_owned())) }
}

fn broken(path: &str, problem: String) -> PackageError {
    PackageError::Manifest { path: path.to_owned(), problem }
}

/// Checks a manifest of Agent Plugins 1.0. Unknown members are reported and ignored, as that format says.
fn check_agent_plugin(manifest: &Value, notices: &mut Vec<String>) -> Result<(), String> {
    if manifest["$schema"] != SCHEMA {
        return Err(format!("`$schema` is not {SCHEMA}"));
    }
    let members = manifest.as_object().into_iter().flatten();
    for (name, value) in members {
        let is_text = value.is_string();
        match name.as_str() {
            "author" => {
                let parts = value.as_object().ok_or("`author` is not an object")?;
                let is_known = |(part, text): (&String, &Value)| {
                    ["name", "email", "url"].contains(&part.as_str()) && text.is_string()
                };
                if !parts.iter().all(is_known) {
                    return Err("`author` has other members than name, email and url".to_owned());
                }
            }
            "keywords" if value.as_array().is_some_and(|words| words.iter().all(Value::is_string)) => {}
            "extensions" if value.is_object() => {}
            "extensions" => notices.push("`extensions` in plugin.json is not an object and is ignored".to_owned()),
            known if MEMBERS.contains(&known) && is_text => {}
            known if MEMBERS.contains(&known) => return Err(format!("`{known}` has the wrong type")),
            other => notices.push(format!("`{}` in plugin.json is unknown and ignored", other.escape_debug())),
        }
    }
    let name = manifest["name"].as_str().unwrap_or_default();
    let is_plain = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte));
    if is_plain && !name.contains("--") {
        Ok(())
    } else {
        Err(format!("`{}` is not a valid name", name.escape_debug()))
    }
}
