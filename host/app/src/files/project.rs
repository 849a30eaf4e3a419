//! Places of the files of a project that take effect, relative to its directory.

/// Config of a project.
pub const CONFIG: &str = ".pinion/config.toml";
/// Replaces the system prompt.
pub const PROJECT_SYSTEM: &str = ".pinion/SYSTEM.md";
/// Appended to the system prompt.
pub const PROJECT_APPEND: &str = ".pinion/APPEND_SYSTEM.md";
/// MCP servers of a project, in order of precedence.
pub const PROJECT_SERVERS: [&str; 2] = [".pinion/mcp.json", ".mcp.json"];
