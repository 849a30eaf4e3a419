//! Suggestions for mistyped names.

/// Maximum number of edits between a word and the name that it was probably meant to be.
const MAX_EDITS: usize = 2;

/// Returns the name that differs from a word in the fewest letters, if those are few.
pub(crate) fn nearest<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let edits = |name: &str| strsim::damerau_levenshtein(word, name);
    let near = names.into_iter().map(|name| (edits(name), name));
    near.filter(|(edits, name)| *edits <= MAX_EDITS && *edits < name.len()).min().map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_with_few_edits_are_suggested() {
        assert_eq!(nearest("modle", ["model", "limits"]), Some("model"));
        assert_eq!((nearest("x", ["ab"]), nearest("timeout", ["model"])), (None, None));
    }
}
