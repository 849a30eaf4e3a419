//! Versions of the contract.
//!
//! A component may be made for a later patch version, or name any version in its manifest: it loads if everything that it
//! imports and exports links. The linker finds an interface under each patch version of a series, and compares only the
//! functions that the component uses.

/// The version of the contract that this host speaks.
pub const API_VERSION: &str = "0.1.0";

/// The beginning of the interfaces of the hooks' package, which has the versions of the contract.
pub const HOOKS_PACKAGE: &str = "pinion:hooks/";

/// The beginning of all versions of the contract with the same types. A patch version adds functions and interfaces, so a
/// component of a later one links unless it uses an addition.
const API_SERIES: &str = "0.1.";

/// Returns whether a text can be the version of a package: at most 40 of `a-z A-Z 0-9 . + -`.
pub fn is_version(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'+' | b'-');
    (1..=40).contains(&text.len()) && text.bytes().all(is_part)
}

/// Returns the patch number of a version with the types that this host speaks.
pub fn series_patch(version: &str) -> Option<u32> {
    let patch = version.strip_prefix(API_SERIES)?;
    patch.bytes().all(|byte| byte.is_ascii_digit()).then(|| patch.parse().ok())?
}

/// Returns the version of an interface of the contract whose types differ from the types of this host. The linker compares
/// interfaces of the same series itself, function by function.
pub fn other_version(interface: &str) -> Option<&str> {
    let (_, version) = interface.strip_prefix("pinion:plugin/")?.split_once('@')?;
    series_patch(version).is_none().then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_of_other_series_are_told_apart() {
        for (interface, version) in [
            ("pinion:plugin/tools@0.1.0", None),
            ("pinion:plugin/tools@0.1.4000000000", None),
            ("wasi:io/streams@0.2.6", None),
            ("pinion:plugin/tools@0.1.99999999999", Some("0.1.99999999999")),
            ("pinion:plugin/tools@0.2.0", Some("0.2.0")),
            ("pinion:plugin/tools@0.1.0-a", Some("0.1.0-a")),
        ] {
            assert_eq!(other_version(interface), version, "{interface}");
        }
    }
}
