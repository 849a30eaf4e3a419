//! The components that are embedded in this program.

/// An embedded plugin.
pub(crate) struct BuiltIn {
    pub(crate) name: &'static str,
    pub(crate) bytes: &'static [u8],
    /// Its description, if it was built with one.
    pub(crate) description: Option<&'static str>,
    /// True if it offers only slash commands, which a non-interactive run does not need.
    pub(crate) is_for_conversations: bool,
}

include!(concat!(env!("OUT_DIR"), "/descriptions.rs"));

macro_rules! component {
    ($name:literal) => {
        include_bytes!(concat!(env!("PINION_DIST"), "/", $name, ".wasm"))
    };
}

/// All built-in plugins, in the order in which the model sees their tools.
pub(crate) const BUILT_IN: &[BuiltIn] = &[
    BuiltIn { name: "fs", bytes: component!("fs"), description: FS, is_for_conversations: false },
    BuiltIn { name: "shell", bytes: component!("shell"), description: SHELL, is_for_conversations: false },
    BuiltIn { name: "task", bytes: component!("task"), description: TASK, is_for_conversations: false },
    BuiltIn { name: "commands", bytes: component!("commands"), description: COMMANDS, is_for_conversations: true },
];

/// The plugin that models call first.
pub(crate) const FIRST_CALLED: &str = "fs";

/// Two versions of a plugin, for `pinion demo`.
pub(crate) const GREETER: [&[u8]; 2] = [component!("greeter_one"), component!("greeter_two")];
