//! The components that are embedded in this program.

/// An embedded plugin.
pub(crate) struct BuiltIn {
    pub(crate) name: &'static str,
    pub(crate) bytes: &'static [u8],
    /// True if it offers only slash commands, which a non-interactive run does not need.
    pub(crate) is_for_conversations: bool,
}

macro_rules! component {
    ($name:literal) => {
        include_bytes!(concat!(env!("PINION_DIST"), "/", $name, ".wasm"))
    };
}

/// All built-in plugins, in the order in which the model sees their tools.
pub(crate) const BUILT_IN: &[BuiltIn] = &[
    BuiltIn { name: "fs", bytes: component!("fs"), is_for_conversations: false },
    BuiltIn { name: "shell", bytes: component!("shell"), is_for_conversations: false },
    BuiltIn { name: "task", bytes: component!("task"), is_for_conversations: false },
    BuiltIn { name: "commands", bytes: component!("commands"), is_for_conversations: true },
];

/// The plugin that models call first.
pub(crate) const FIRST_CALLED: &str = "fs";

/// Two versions of a plugin, for `pinion demo`.
pub(crate) const GREETER: [&[u8]; 2] = [component!("greeter_one"), component!("greeter_two")];
