//! The manifest that stands for a plain component without one.

use crate::manifest::{Lifetime, Manifest};
use crate::plain::asks::asks;
use pinion_plugin_contract::version::API_VERSION;
use pinion_plugin_functions::functions::is_plain_interface;
use pinion_plugin_limits::PartialLimits;
use pinion_plugin_offers::names::{MAX_NAME_BYTES, is_name};
use std::collections::BTreeSet;
use std::path::Path;

/// The version of a component that names none.
const NO_VERSION: &str = "0.0.0";

/// Returns the name of the plugin in a file without a manifest: the file's name, with `-` in place of other characters.
/// `None` if nothing is left of it.
pub(crate) fn file_plugin_name(path: &Path) -> Option<String> {
    let stem = path.file_stem()?.to_string_lossy();
    let name = stem.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' });
    let name: String = name.take(MAX_NAME_BYTES).collect();
    let name = name.trim_matches('-');
    is_name(name).then(|| name.to_owned())
}

/// Builds the manifest of a plain component with these exports.
///
/// # Errors
/// The bytes are no component; the text is the parser's.
pub(crate) fn plain_manifest(
    bytes: &[u8],
    name: String,
    exports: &BTreeSet<String>,
) -> Result<Manifest, wasmparser::BinaryReaderError> {
    let interfaces: Vec<&str> =
        exports.iter().map(String::as_str).filter(|name| name.contains('/') && is_plain_interface(name)).collect();
    let version =
        interfaces.iter().find_map(|name| Some(name.split_once('@')?.1)).filter(|version| version.len() <= 64);
    let description = match &interfaces[..] {
        [] => "A component with plain functions".to_owned(),
        [only] => format!("The functions of {only}"),
        [first, rest @ ..] => format!("The functions of {first} and {} other interfaces", rest.len()),
    };
    Ok(Manifest {
        manifest: 1,
        api: API_VERSION.to_owned(),
        name,
        version: version.unwrap_or(NO_VERSION).to_owned(),
        description: if description.len() <= 512 { description } else { "A component with plain functions".to_owned() },
        capabilities: asks(bytes)?,
        limits: PartialLimits::default(),
        lifetime: Lifetime::Call,
        unknown: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugin_is_named_after_its_file() {
        let name = |path: &str| file_plugin_name(Path::new(path));
        assert_eq!(name("/a/calc.wasm").as_deref(), Some("calc"));
        assert_eq!(name("my calc.v2.wasm").as_deref(), Some("my-calc-v2"));
        assert_eq!(name(&format!("{}.wasm", "a".repeat(99))).map(|name| name.len()), Some(64));
        assert_eq!(name("/a/….wasm"), None);
    }
}
