//! Comparison of texts with their redacted form in recordings.

/// Replaces redacted text.
const MARK: &str = "[redacted]";

/// Returns whether `text` equals the recorded text, where redacted parts match anything.
pub(crate) fn matches_redacted(recorded: &str, text: &str) -> bool {
    let pieces: Vec<&str> = recorded.split(MARK).collect();
    let [first, between @ .., last] = &pieces[..] else { return recorded == text };
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    for piece in between {
        let Some((_, after)) = rest.split_once(piece) else { return false };
        rest = after;
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redacted_parts_match_anything() {
        assert!(matches_redacted("the key [redacted] is", "the key sk-1 is"));
        assert!(matches_redacted("a [redacted] b [redacted] c", "a 1 b 2 c") && matches_redacted("same", "same"));
        assert!(matches_redacted("[redacted]", "") && matches_redacted("a[redacted]", "a"));
        for (recorded, text) in
            [("a", "b"), ("a", "ab"), ("a [redacted] c", "a 1 d"), ("a [redacted] b [redacted]", "a c")]
        {
            assert!(!matches_redacted(recorded, text), "{recorded} {text}");
        }
    }
}
