//! The self-description of a component, read without compiling or running it.
//!
//! The custom section `pinion:manifest` holds JSON; the SDK's macro writes it into the core module, `pinion plugin pack`
//! appends it to the component. The lists of imports and exports come from the component itself. A component without
//! the section and without exports of `pinion:plugin` has a manifest that [`crate::plain`] derives.

use crate::capability::table::Asks;
use crate::plain::manifest::{file_plugin_name, plain_manifest};
use pinion_plugin_contract::version::{API_VERSION, HOOKS_PACKAGE, is_version, other_version, series_patch};
use pinion_plugin_engine::MAX_COMPONENT_BYTES;
use pinion_plugin_functions::documentation::{DOCUMENTATION_SECTION, FunctionTexts, function_texts};
use pinion_plugin_functions::functions::is_plain_interface;
use pinion_plugin_limits::component_sizes::{Sizes, TooManyParts};
use pinion_plugin_limits::{Limits, PartialLimits};
use pinion_plugin_offers::names::is_name;
use pinion_plugin_offers::wording;
use pinion_protocol::HookPoint;
use pinion_protocol::text::one_line;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use wasmparser::{ComponentExternalKind, Parser, Payload};

/// The name of the custom section.
pub const MANIFEST_SECTION: &str = "pinion:manifest";

/// The most bytes of a manifest; no honest one is longer.
const MAX_MANIFEST_BYTES: usize = 64 * 1024;

/// The manifest section.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The version of the section's own format.
    pub manifest: u32,
    /// The version of `pinion:plugin` that the component was made for.
    pub api: String,
    /// The plugin's name: 1 to 64 of `a-z A-Z 0-9 _ -`.
    pub name: String,
    /// The plugin's version.
    pub version: String,
    /// One line for people.
    #[serde(default)]
    pub description: String,
    /// The capabilities that it asks for.
    #[serde(default)]
    pub capabilities: Asks,
    /// The limits that it asks to raise.
    #[serde(default)]
    pub limits: PartialLimits,
    /// The lifetime of its instances.
    #[serde(default)]
    pub lifetime: Lifetime,
    /// Capabilities and limits that it asks for and that this host does not know, such as a later version's; they are
    /// ignored.
    #[serde(skip)]
    pub unknown: Vec<String>,
}

/// The lifetime of an instance, from the shortest to the longest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Lifetime {
    /// One call.
    #[default]
    Call,
    /// One call, and others of the same kind if the host keeps it.
    Reused,
    /// The whole session: one instance, one call at a time.
    Session,
}

impl Lifetime {
    /// The name of the lifetime in a manifest.
    pub fn name(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Reused => "reused",
            Self::Session => "session",
        }
    }
}

/// The interfaces of `pinion:plugin` that a component exports.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exports {
    /// `tools`.
    pub tools: bool,
    /// `commands`.
    pub commands: bool,
    /// `lifecycle`.
    pub lifecycle: bool,
    /// `state`.
    pub state: bool,
    /// `offers`.
    pub offers: bool,
    /// `before-tool-call`.
    pub before_tool_call: bool,
    /// `after-tool-call`.
    pub after_tool_call: bool,
    /// `before-prompt`.
    pub before_prompt: bool,
    /// `before-compaction`.
    pub before_compaction: bool,
    /// `session-events`.
    pub session_events: bool,
    /// `before-stop` of `pinion:hooks`.
    #[serde(default, skip_serializing_if = "is_false")]
    pub before_stop: bool,
    /// `session-start` of `pinion:hooks`.
    #[serde(default, skip_serializing_if = "is_false")]
    pub session_start: bool,
    /// `session-end` of `pinion:hooks`.
    #[serde(default, skip_serializing_if = "is_false")]
    pub session_end: bool,
    /// `after-reply` of `pinion:hooks`.
    #[serde(default, skip_serializing_if = "is_false")]
    pub after_reply: bool,
    /// Functions of its own, which become tools because it exports nothing else of this list.
    #[serde(default, skip_serializing_if = "is_false")]
    pub functions: bool,
}

/// The self-description of a component.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inspection {
    /// Its manifest.
    pub manifest: Manifest,
    /// The interfaces that it imports, with their versions, including WASI's.
    pub imports: BTreeSet<String>,
    /// The interfaces that it exports.
    pub exports: Exports,
    /// Doc comments of its plain functions.
    #[serde(default, skip_serializing_if = "FunctionTexts::is_empty")]
    pub(crate) documentation: FunctionTexts,
}

/// The reason why a file is not a plugin for this host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// Not WebAssembly, or malformed.
    #[error("invalid WebAssembly component: {0}")]
    NotAComponent(String),
    /// A core module.
    #[error("a core module, not a component\nhint: make it a plugin with: pinion plugin pack FILE --name NAME")]
    CoreModule,
    /// No manifest section.
    #[error("no `pinion:manifest` section\nhint: use the SDK's `export!` macro, or run `pinion plugin pack`")]
    Missing,
    /// A manifest section that cannot be parsed.
    #[error("invalid `pinion:manifest` section: {0}")]
    Unreadable(String),
    /// A text of the manifest that is too long or contains invisible characters.
    #[error("the manifest {0}")]
    Wording(String),
    /// Exports nothing but interfaces of another version of the contract.
    #[error(
        "exports version `{found}` of the plugin API, but this host speaks `{API_VERSION}`\n\
         hint: rebuild the plugin with the SDK of this version of pinion, or use a pinion that speaks `{found}`"
    )]
    ApiVersion {
        /// The version of an export.
        found: String,
    },
    /// Too large to be loaded.
    #[error("has more than {limit} {what}, the limit of loading")]
    TooMany {
        /// The plural noun of the items that exceed the limit.
        what: &'static str,
        /// The limit.
        limit: u64,
    },
    /// No function to call.
    #[error("exports no tools, commands, hooks or `lifecycle` of `pinion:plugin@{API_VERSION}`")]
    NoExports,
}

impl From<TooManyParts> for ManifestError {
    fn from(TooManyParts { what, limit }: TooManyParts) -> Self {
        Self::TooMany { what, limit }
    }
}

impl Inspection {
    /// Reads the self-description of a component.
    ///
    /// # Errors
    /// The bytes are not a plugin for this host; the error says why and how to fix it.
    pub fn from_component(bytes: &[u8]) -> Result<Self, ManifestError> {
        Self::read(bytes, None)
    }

    /// Reads the self-description of a component in a file. The file's name is the plugin's name if the component has
    /// no manifest and exports plain functions.
    ///
    /// # Errors
    /// As [`Inspection::from_component`].
    pub fn from_file(bytes: &[u8], path: &Path) -> Result<Self, ManifestError> {
        Self::read(bytes, Some(path))
    }

    /// Returns the names of a component's imports and exports, as the binary has them.
    ///
    /// # Errors
    /// The bytes are not a component.
    pub fn interfaces(bytes: &[u8]) -> Result<[BTreeSet<String>; 2], ManifestError> {
        Sections::read(bytes).map(|sections| [sections.imports, sections.exports])
    }

    fn read(bytes: &[u8], path: Option<&Path>) -> Result<Self, ManifestError> {
        let sections = Sections::read(bytes)?;
        let is_ours = |name: &String| our_interface(name).is_some() || hook_interface(name).is_some();
        let is_plain = sections.has_functions && !sections.exports.iter().any(is_ours);
        let manifest = match (sections.manifest, path.and_then(file_plugin_name)) {
            (Some(data), _) => parse_manifest(data)?,
            (None, Some(name)) if is_plain => {
                plain_manifest(bytes, name, &sections.exports).map_err(|e| not_a_component(&e))?
            }
            (None, _) => return Err(ManifestError::Missing),
        };
        let exports = Exports { functions: is_plain, ..Exports::among(&sections.exports) };
        if exports == (Exports { state: exports.state, ..Exports::default() }) {
            let other = sections.exports.iter().find_map(|name| other_version(name));
            return Err(other.map_or(ManifestError::NoExports, |version| ManifestError::ApiVersion {
                found: one_line(version, 40),
            }));
        }
        let documentation = sections.documentation.filter(|_| is_plain).map(function_texts).unwrap_or_default();
        Ok(Self { manifest, imports: sections.imports, exports, documentation })
    }

    /// Returns whether its manifest names a later version of the contract than this host speaks. It loads if everything
    /// that it imports and exports links.
    pub fn is_for_later_host(&self) -> bool {
        !matches!(series_patch(&self.manifest.api), Some(patch) if Some(patch) <= series_patch(API_VERSION))
    }

    /// Returns the interfaces of `pinion:plugin` that it imports, without package and version.
    pub fn our_imports(&self) -> impl Iterator<Item = &str> {
        self.imports.iter().filter_map(|name| our_interface(name))
    }
}

impl Exports {
    fn among(names: &BTreeSet<String>) -> Self {
        let ours = names.iter().filter(|name| other_version(name).is_none());
        let interfaces: BTreeSet<&str> = ours.filter_map(|name| our_interface(name)).collect();
        let has = |interface: &str| interfaces.contains(interface);
        let has_hook = |name: &str| names.iter().any(|export| hook_interface(export) == Some(name));
        Self {
            tools: has("tools"),
            commands: has("commands"),
            lifecycle: has("lifecycle"),
            state: has("state"),
            offers: has("offers"),
            before_tool_call: has("before-tool-call"),
            after_tool_call: has("after-tool-call"),
            before_prompt: has("before-prompt"),
            before_compaction: has("before-compaction"),
            session_events: has("session-events"),
            before_stop: has_hook("before-stop"),
            session_start: has_hook("session-start"),
            session_end: has_hook("session-end"),
            after_reply: has_hook("after-reply"),
            functions: false,
        }
    }

    /// Returns whether it exports a hook.
    pub fn has_hooks(&self) -> bool {
        HookPoint::ALL.into_iter().any(|point| self.has_hook(point))
    }

    /// Returns whether it exports the hook at a point.
    pub fn has_hook(&self, point: HookPoint) -> bool {
        match point {
            HookPoint::BeforeToolCall => self.before_tool_call,
            HookPoint::AfterToolCall => self.after_tool_call,
            HookPoint::BeforePrompt => self.before_prompt,
            HookPoint::BeforeCompaction => self.before_compaction,
            HookPoint::SessionEvents => self.session_events,
            HookPoint::BeforeStop => self.before_stop,
            HookPoint::SessionStart => self.session_start,
            HookPoint::SessionEnd => self.session_end,
            HookPoint::AfterReply => self.after_reply,
        }
    }
}

/// Returns the name of an interface of `pinion:plugin`, without package and version.
fn our_interface(name: &str) -> Option<&str> {
    name.strip_prefix("pinion:plugin/")?.split('@').next()
}

/// Returns the name of an interface of the series of `pinion:hooks` that this host speaks, without package and version.
fn hook_interface(name: &str) -> Option<&str> {
    let (interface, version) = name.strip_prefix(HOOKS_PACKAGE)?.split_once('@')?;
    series_patch(version).map(|_| interface)
}

/// Keeps the first line of the parser's error. The others dump bytes.
fn not_a_component(error: &wasmparser::BinaryReaderError) -> ManifestError {
    ManifestError::NotAComponent(error.to_string().lines().next().unwrap_or_default().to_owned())
}

/// The parts of the binary that matter here.
#[derive(Default)]
struct Sections<'a> {
    manifest: Option<&'a [u8]>,
    imports: BTreeSet<String>,
    exports: BTreeSet<String>,
    /// True if a function is exported, or an interface that may be plain.
    has_functions: bool,
    documentation: Option<&'a [u8]>,
}

impl<'a> Sections<'a> {
    fn read(bytes: &'a [u8]) -> Result<Self, ManifestError> {
        if bytes.len() as u64 > MAX_COMPONENT_BYTES {
            return Err(ManifestError::NotAComponent(format!("larger than {MAX_COMPONENT_BYTES} bytes")));
        }
        if Parser::is_core_wasm(bytes) {
            return Err(ManifestError::CoreModule);
        }
        if !bytes.starts_with(b"\0asm") {
            return Err(ManifestError::NotAComponent("it does not begin like a WebAssembly file".to_owned()));
        }
        let mut sections = Self::default();
        let mut sizes = Sizes::default();
        for payload in Parser::new(0).parse_all(bytes) {
            let payload = payload.map_err(|e| not_a_component(&e))?;
            sizes.count_payload(&payload)?;
            let depth = sizes.nesting();
            match payload {
                // The outermost section counts: `pack` may override the one that a compiler left in a module.
                Payload::CustomSection(section)
                    if section.name() == MANIFEST_SECTION && (depth == 0 || sections.manifest.is_none()) =>
                {
                    sections.manifest = Some(section.data());
                }
                Payload::CustomSection(section) if section.name() == DOCUMENTATION_SECTION && depth == 0 => {
                    sections.documentation = Some(section.data());
                }
                Payload::ComponentImportSection(reader) if depth == 0 => {
                    for import in reader {
                        let import = import.map_err(|e| not_a_component(&e))?;
                        sections.imports.insert(import.name.name.to_owned());
                    }
                }
                Payload::ComponentExportSection(reader) if depth == 0 => {
                    for export in reader {
                        let export = export.map_err(|e| not_a_component(&e))?;
                        let name = export.name.name;
                        sections.has_functions |= match export.kind {
                            ComponentExternalKind::Func => true,
                            ComponentExternalKind::Instance => is_plain_interface(name),
                            _ => false,
                        };
                        sections.exports.insert(name.to_owned());
                    }
                }
                _ => {}
            }
        }
        Ok(sections)
    }
}

fn parse_manifest(data: &[u8]) -> Result<Manifest, ManifestError> {
    if data.len() > MAX_MANIFEST_BYTES {
        return Err(ManifestError::Unreadable(format!("longer than {MAX_MANIFEST_BYTES} bytes")));
    }
    let unreadable = |e: serde_json::Error| ManifestError::Unreadable(e.to_string());
    // Versions first: a newer manifest may have fields that this host does not know.
    let versions: Versions = serde_json::from_slice(data).map_err(unreadable)?;
    if !is_version(&versions.api) {
        return Err(ManifestError::Unreadable(format!("`{}` is not a version", one_line(&versions.api, 40))));
    }
    if versions.manifest != 1 {
        return Err(ManifestError::Unreadable(format!("unknown format {}", versions.manifest)));
    }
    let mut json: Value = serde_json::from_slice(data).map_err(unreadable)?;
    let unknown = take_unknown(&mut json);
    check_members(&json).map_err(ManifestError::Unreadable)?;
    let manifest = Manifest { unknown, ..serde_json::from_value(json).map_err(unreadable)? };
    if !is_name(&manifest.name) {
        return Err(ManifestError::Unreadable(format!("`{}` is not a valid name", manifest.name.escape_debug())));
    }
    wording::check_manifest(&manifest.version, &manifest.description).map_err(ManifestError::Wording)?;
    Ok(manifest)
}

/// Checks each capability and limit by itself, so that an error names it and shows a value that is right.
fn check_members(manifest: &Value) -> Result<(), String> {
    let most = serde_json::to_value(Asks::most()).unwrap_or_default();
    let limits = serde_json::to_value(Limits::default()).unwrap_or_default();
    for (member, right) in [("capabilities", &most), ("limits", &limits)] {
        for (name, value) in manifest.get(member).and_then(Value::as_object).into_iter().flatten() {
            let one = serde_json::json!({ name: value });
            let read = match member {
                "capabilities" => serde_json::from_value::<Asks>(one).err(),
                _ => serde_json::from_value::<PartialLimits>(one).err(),
            };
            if let Some(error) = read {
                let key = if member == "capabilities" { "asks" } else { member };
                let example = right.get(name).map(|right| format!("\nhint: for example \"{name}\": {right}"));
                return Err(format!("`{name}` in `{key}`: {error}{}", example.unwrap_or_default()));
            }
        }
    }
    Ok(())
}

/// Removes the capabilities and limits that this host does not know, and returns their names.
fn take_unknown(manifest: &mut Value) -> Vec<String> {
    let limits = serde_json::to_value(Limits::default()).unwrap_or_default();
    let (capabilities, is_limit) = (Asks::names(), |name: &str| limits.get(name).is_some());
    let mut unknown = Vec::new();
    for (member, is_known) in
        [("capabilities", &(|name: &str| capabilities.contains(&name)) as &dyn Fn(&str) -> bool), ("limits", &is_limit)]
    {
        if let Some(asks) = manifest.get_mut(member).and_then(Value::as_object_mut) {
            asks.retain(|name, _| {
                let known = is_known(name);
                if !known {
                    unknown.push(one_line(name, 40));
                }
                known
            });
        }
    }
    unknown
}

#[derive(Deserialize)]
struct Versions {
    manifest: u32,
    api: String,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_false(value: &bool) -> bool {
    !value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_not_a_component() {
        for bytes in [&b"hello"[..], b"", b"\0asm", b"\0asm\xff\xff\xff\xff", &[0xa7; 4096]] {
            let Err(error @ ManifestError::NotAComponent(_)) = Inspection::from_component(bytes) else {
                panic!("{bytes:?}")
            };
            assert_eq!(error.to_string().lines().count(), 1, "{error}");
        }
    }

    #[test]
    fn core_module_is_rejected() {
        assert_eq!(Inspection::from_component(b"\0asm\x01\0\0\0"), Err(ManifestError::CoreModule));
    }

    #[test]
    fn component_without_a_manifest_is_rejected() {
        assert_eq!(Inspection::from_component(b"\0asm\x0d\0\x01\0"), Err(ManifestError::Missing));
    }

    #[test]
    fn manifest_may_name_any_version() {
        for version in [API_VERSION, "0.1.1", "0.2.0", "7.0.0-rc.1"] {
            let json = format!(r#"{{"manifest":1,"api":"{version}","name":"x","version":"1","new":{{}}}}"#);
            assert_eq!(parse_manifest(json.as_bytes()).unwrap().api, version);
        }
        for version in ["", "0.1.0\\u001b", "0 1", &"1".repeat(41)] {
            let json = format!(r#"{{"manifest":1,"api":"{version}","name":"x","version":"1"}}"#);
            assert!(matches!(parse_manifest(json.as_bytes()), Err(ManifestError::Unreadable(_))), "{version}");
        }
    }

    #[test]
    fn unknown_asks_are_noted_and_ignored() {
        let json = br#"{"manifest":1,"api":"0.1.0","name":"x","version":"1",
            "capabilities":{"teleport":{"to":["moon"]},"process":true},"limits":{"fuel":5,"warp":9}}"#;
        let manifest = parse_manifest(json).unwrap();
        assert_eq!(manifest.unknown, ["teleport", "warp"]);
        assert!(manifest.capabilities.process && manifest.limits.fuel == Some(5));
    }

    #[test]
    fn invalid_name_is_rejected() {
        let json = br#"{"manifest":1,"api":"0.1.0","name":"../x","version":"1"}"#;
        assert!(matches!(parse_manifest(json), Err(ManifestError::Unreadable(_))));
    }
}
