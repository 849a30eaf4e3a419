//! Suggestions for mistyped names.

/// Returns the name that differs from a word in the fewest letters, if those are few.
pub fn nearest<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let edits = |name: &str| strsim::damerau_levenshtein(word, name);
    let near = names.into_iter().map(|name| (edits(name), name));
    near.filter(|(edits, name)| *edits <= max_edits(name)).min().map(|(_, name)| name)
}

/// Returns the maximum number of edits between `name` and a word that was probably meant to be it. Two edits turn a
/// short name into other words, as `help` into `hello`.
const fn max_edits(name: &str) -> usize {
    match name.len() {
        0 | 1 => 0,
        2..6 => 1,
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_with_few_edits_are_suggested() {
        assert_eq!(nearest("modle", ["model", "limits"]), Some("model"));
        assert_eq!(nearest("sesson", ["session"]), Some("session"));
        assert_eq!((nearest("x", ["ab"]), nearest("timeout", ["model"])), (None, None));
        assert_eq!((nearest("hello", ["help"]), nearest("test", ["trust"])), (None, None));
    }
}
