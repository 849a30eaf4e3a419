//! The components that are embedded in this program.

use pinion_plugin_runtime::PluginSource;

/// An embedded plugin.
pub struct BuiltIn {
    /// Name of the plugin.
    pub name: &'static str,
    /// The component.
    pub bytes: &'static [u8],
    /// BLAKE3 of the component, in hexadecimal.
    pub digest: &'static str,
    /// Its description, if it was built with one.
    pub description: Option<&'static str>,
    /// True if it offers only slash commands, which a non-interactive run does not need.
    pub is_for_conversations: bool,
    /// True if it has nothing to offer without MCP servers.
    pub is_for_servers: bool,
    /// True if it has nothing to offer without skills.
    pub is_for_skills: bool,
    /// True if it has nothing to offer without HTTP interfaces in its config.
    pub is_for_apis: bool,
}

include!(concat!(env!("OUT_DIR"), "/descriptions.rs"));

macro_rules! component {
    ($name:literal) => {
        include_bytes!(concat!(env!("PINION_DIST"), "/", $name, ".wasm"))
    };
}

/// All built-in plugins, in the order of their tools for the model. A static, because each use of a constant may embed
/// a copy of the components.
pub static BUILT_IN: &[BuiltIn] = &[
    BuiltIn::new("fs", component!("fs"), FS),
    BuiltIn::new("shell", component!("shell"), SHELL),
    BuiltIn::new("task", component!("task"), TASK),
    BuiltIn::new("todo", component!("todo"), TODO),
    BuiltIn::new("web", component!("web"), WEB),
    BuiltIn { is_for_conversations: true, ..BuiltIn::new("commands", component!("commands"), COMMANDS) },
    BuiltIn { is_for_servers: true, ..BuiltIn::new(BRIDGE, component!("mcp"), MCP) },
    BuiltIn { is_for_apis: true, ..BuiltIn::new(OPENAPI_BRIDGE, component!("openapi"), OPENAPI) },
    BuiltIn { is_for_skills: true, ..BuiltIn::new(SKILL_READER, component!("skills"), SKILLS) },
];

impl BuiltIn {
    const fn new(
        name: &'static str,
        bytes: &'static [u8],
        (digest, description): (&'static str, Option<&'static str>),
    ) -> Self {
        Self {
            name,
            bytes,
            digest,
            description,
            is_for_conversations: false,
            is_for_servers: false,
            is_for_skills: false,
            is_for_apis: false,
        }
    }

    /// Returns the source that the runtime loads it from.
    pub fn source(&self) -> PluginSource {
        let Self { name, bytes, digest, description, .. } = *self;
        PluginSource::BuiltIn { name, bytes, digest: Some(digest), description }
    }
}

/// The plugin that offers the tools of MCP servers.
pub const BRIDGE: &str = "mcp";

/// The plugin that offers the operations of HTTP interfaces.
pub const OPENAPI_BRIDGE: &str = "openapi";

/// The plugin that hands out skills.
pub const SKILL_READER: &str = "skills";

/// The plugin that models call first.
pub const FIRST_CALLED: &str = "fs";

/// Two versions of a plugin, for `pinion demo`.
pub static GREETER: [&[u8]; 2] = [component!("greeter_one"), component!("greeter_two")];
