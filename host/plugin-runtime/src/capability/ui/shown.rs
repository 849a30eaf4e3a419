//! Texts of plugins as the user sees them.

use pinion_protocol::text::printable;

/// Removes control characters but line ends, and makes other invisible characters visible.
pub(super) fn without_controls(text: &str) -> String {
    let kept: String = text.replace('\t', "    ").chars().filter(|c| *c == '\n' || !c.is_control()).collect();
    printable(&kept).into_owned()
}
