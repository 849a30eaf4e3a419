//! The [`export!`](crate::export!) macro, and the manifest section that the host reads before it compiles a component.
//!
//! The manifest is JSON in the custom section `pinion:manifest`, built at compile time from the author's `Cargo.toml`
//! and the macro's arguments.

/// Version of the contract that this SDK implements.
pub const API: &str = "0.1.0";

/// A piece of the manifest: JSON to copy, or the content of a JSON string to escape.
#[derive(Clone, Copy)]
pub enum Part {
    /// Copied unchanged.
    Json(&'static str),
    /// Escaped; the caller adds the quotes.
    Text(&'static str),
}

/// Returns the length of the concatenated `parts` in bytes.
pub const fn length(parts: &[Part]) -> usize {
    let mut total = 0;
    let mut i = 0;
    while i < parts.len() {
        total += match parts[i] {
            Part::Json(json) => json.len(),
            Part::Text(text) => escaped_length(text.as_bytes()),
        };
        i += 1;
    }
    total
}

/// Concatenates `parts`; `N` must be their [`length`].
pub const fn concat<const N: usize>(parts: &[Part]) -> [u8; N] {
    let mut out = [0; N];
    let mut at = 0;
    let mut i = 0;
    while i < parts.len() {
        let (bytes, escape) = match parts[i] {
            Part::Json(json) => (json.as_bytes(), false),
            Part::Text(text) => (text.as_bytes(), true),
        };
        let mut j = 0;
        while j < bytes.len() {
            if escape && needs_escape(bytes[j]) {
                out[at] = b'\\';
                at += 1;
            }
            // A control character in a description is a typo; replace it with a space.
            out[at] = if bytes[j] < 0x20 { b' ' } else { bytes[j] };
            at += 1;
            j += 1;
        }
        i += 1;
    }
    out
}

const fn escaped_length(bytes: &[u8]) -> usize {
    let mut total = bytes.len();
    let mut i = 0;
    while i < bytes.len() {
        if needs_escape(bytes[i]) {
            total += 1;
        }
        i += 1;
    }
    total
}

const fn needs_escape(byte: u8) -> bool {
    byte == b'"' || byte == b'\\'
}

/// Exports a plugin from the component.
///
/// - `exports` lists what the component exports: any of `tools`, `commands`, `offers`, `lifecycle`, `state`, and the
///   [`hooks`](crate::hooks) `before_tool_call`, `after_tool_call`, `before_prompt`, `before_compaction` and
///   `session_events`.
/// - `name` overrides the plugin's name; the default is the package's.
/// - `asks` lists the requested capabilities as JSON: `"files": "read"` or `"write"`, and others such as `"process": true`.
///   `pinion plugin check` lists them all.
/// - `limits` lists requested limits as JSON, with the names of the host's limits file.
/// - `lifetime = "session"` keeps one instance for the whole session instead of a fresh one per call. `lifetime = "reused"`
///   lets the host run a later call on an instance whose last one ended well, so that a call costs less; nothing that such
///   an instance remembers may matter.
///
/// The version, the description and the default name come from the plugin's `Cargo.toml`.
#[macro_export]
macro_rules! export {
    (
        $plugin:ident,
        exports = [$($export:ident),+ $(,)?]
        $(, name = $name:literal)?
        $(, asks = { $($asks:tt)* })?
        $(, limits = { $($limits:tt)* })?
        $(, lifetime = $lifetime:literal)?
        $(,)?
    ) => {
        #[allow(non_camel_case_types, dead_code)]
        type __pinion_plugin = $crate::Adapter<$plugin>;
        // Exported names are not valid symbols for native linkers, and native tests need no exports.
        $(#[cfg(target_arch = "wasm32")] $crate::__export_one!($export);)+

        const _: () = {
            const PARTS: &[$crate::export::Part] = &[
                $crate::export::Part::Json("{\"manifest\":1,\"api\":\""),
                $crate::export::Part::Json($crate::export::API),
                $crate::export::Part::Json("\",\"name\":\""),
                $crate::export::Part::Text($crate::__plugin_name!($($name)?)),
                $crate::export::Part::Json("\",\"version\":\""),
                $crate::export::Part::Text(env!("CARGO_PKG_VERSION")),
                $crate::export::Part::Json("\",\"description\":\""),
                $crate::export::Part::Text(env!("CARGO_PKG_DESCRIPTION")),
                $crate::export::Part::Json("\""),
                $($crate::export::Part::Json(concat!(",\"capabilities\":{", stringify!($($asks)*), "}")),)?
                $($crate::export::Part::Json(concat!(",\"limits\":{", stringify!($($limits)*), "}")),)?
                $($crate::export::Part::Json(concat!(",\"lifetime\":\"", $lifetime, "\"")),)?
                $crate::export::Part::Json("}"),
            ];
            #[used]
            #[cfg_attr(target_arch = "wasm32", unsafe(link_section = "pinion:manifest"))]
            static MANIFEST: [u8; $crate::export::length(PARTS)] = $crate::export::concat(PARTS);
        };
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __plugin_name {
    () => {
        env!("CARGO_PKG_NAME")
    };
    ($name:literal) => {
        $name
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __export_one {
    (tools) => {
        $crate::bindings::tools::__export_tools!(__pinion_plugin with_types_in $crate::bindings::tools);
    };
    (commands) => {
        $crate::bindings::commands::__export_commands!(__pinion_plugin with_types_in $crate::bindings::commands);
    };
    (lifecycle) => {
        $crate::bindings::lifecycle::__export_lifecycle!(__pinion_plugin with_types_in $crate::bindings::lifecycle);
    };
    (state) => {
        $crate::bindings::state::__export_state!(__pinion_plugin with_types_in $crate::bindings::state);
    };
    (offers) => {
        $crate::bindings::offers::__export_offers!(__pinion_plugin with_types_in $crate::bindings::offers);
    };
    (before_tool_call) => {
        $crate::bindings::before_tool_call::__export_before_tool_call!(
            __pinion_plugin with_types_in $crate::bindings::before_tool_call
        );
    };
    (after_tool_call) => {
        $crate::bindings::after_tool_call::__export_after_tool_call!(
            __pinion_plugin with_types_in $crate::bindings::after_tool_call
        );
    };
    (before_prompt) => {
        $crate::bindings::before_prompt::__export_before_prompt!(
            __pinion_plugin with_types_in $crate::bindings::before_prompt
        );
    };
    (before_compaction) => {
        $crate::bindings::before_compaction::__export_before_compaction!(
            __pinion_plugin with_types_in $crate::bindings::before_compaction
        );
    };
    (session_events) => {
        $crate::bindings::session_events::__export_session_events!(
            __pinion_plugin with_types_in $crate::bindings::session_events
        );
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_and_json_is_copied() {
        const PARTS: &[Part] = &[Part::Json("{\"d\":\""), Part::Text("a \"b\" \\ c\nd"), Part::Json("\"}")];
        const BYTES: [u8; length(PARTS)] = concat(PARTS);
        let value: serde_json::Value = serde_json::from_slice(&BYTES).unwrap();
        assert_eq!(value["d"], "a \"b\" \\ c d");
    }
}
