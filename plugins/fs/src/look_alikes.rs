//! Characters that look alike, and the form that they share.

use unicode_normalization::char::{canonical_combining_class, decompose_canonical, is_combining_mark};

/// Returns the form of a token that its look-alikes share.
pub(crate) fn folded(token: &str) -> String {
    if token.is_ascii() && token.len() == 1 && !matches!(token, "`" | "\t") {
        return token.to_ascii_lowercase();
    }
    let token = token.trim_matches(is_ignored);
    match token.chars().next() {
        Some(c) if is_blank(c) => " ".to_owned(),
        Some(c) if is_dash(c) => "-".to_owned(),
        _ if token == "..." => "\u{2026}".to_owned(),
        _ => decomposed(token).into_iter().flat_map(alike).flat_map(char::to_lowercase).collect(),
    }
}

/// Returns the canonical decomposition (NFD). The iterator of the crate for it brings the tables of the compatibility forms
/// along, which make up a tenth of this component.
fn decomposed(token: &str) -> Vec<char> {
    let mut all = Vec::with_capacity(token.len());
    token.chars().for_each(|c| decompose_canonical(c, |part| all.push(part)));
    let is_base = |c: &char| canonical_combining_class(*c) == 0;
    for marks in all.split_mut(is_base) {
        marks.sort_by_key(|mark| canonical_combining_class(*mark));
    }
    all
}

fn alike(c: char) -> Option<char> {
    Some(match c {
        '\u{2018}' | '\u{2019}' | '\u{201a}' | '\u{201b}' | '\u{2032}' | '\u{2035}' | '\u{b4}' | '\u{2bc}' | '`' => {
            '\''
        }
        '\u{201c}' | '\u{201d}' | '\u{201e}' | '\u{201f}' | '\u{2033}' | '\u{2036}' | '\u{ab}' | '\u{bb}' => '"',
        // Forms of East Asian width.
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(c) - 0xfee0)?,
        c if is_ignored(c) => return None,
        c => c,
    })
}

pub(crate) fn is_blank(c: char) -> bool {
    c.is_whitespace() || c == '\u{2800}'
}

/// Returns whether a character belongs to the letter before it: an accent, or a part of a Korean syllable.
pub(crate) fn is_mark(c: char) -> bool {
    is_combining_mark(c) || matches!(c, '\u{1160}'..='\u{11ff}')
}

pub(crate) fn is_dash(c: char) -> bool {
    matches!(c, '-' | '\u{2010}'..='\u{2015}' | '\u{2212}' | '\u{fe58}' | '\u{fe63}' | '\u{ff0d}')
}

/// Returns whether a character is invisible.
pub(crate) fn is_ignored(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2064}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use unicode_normalization::UnicodeNormalization as _;

    proptest! {
        #[test]
        fn decompositions_are_those_of_unicode(text in "[\\PC\\p{M}\u{ac00}-\u{d7a3}]{0,40}") {
            prop_assert_eq!(decomposed(&text).into_iter().collect::<String>(), text.nfd().collect::<String>());
        }
    }
}
