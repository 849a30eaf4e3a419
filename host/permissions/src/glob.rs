//! Patterns whose `*` stands for any text.

/// Matches a pattern whose `*` stands for any text. Takes at most the product of both lengths in steps.
pub(crate) fn glob(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut at, mut read, mut retry) = (0, 0, None);
    while read < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                retry = Some((at + 1, read + 1));
                at += 1;
            }
            Some(byte) if *byte == text[read] => (at, read) = (at + 1, read + 1),
            _ => match retry {
                Some((after, from)) => {
                    (at, read) = (after, from);
                    retry = Some((after, from + 1));
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}
