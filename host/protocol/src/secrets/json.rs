//! Removes unnecessary escapes from JSON text that arrives in pieces.

/// Length of a complete escape: `\u` and four digits.
const MAX_ESCAPE: usize = 6;

/// Replaces escaped characters that may occur in keys by the characters themselves, so that an escaped key can be
/// found. Usual encoders never escape them. The meaning of the JSON does not change. Escapes may be split across
/// pieces.
#[derive(Default)]
pub(super) struct Unescaper {
    /// An incomplete escape.
    pending: String,
}

impl Unescaper {
    pub(super) fn push(&mut self, piece: &str) -> String {
        if self.pending.is_empty() && !piece.contains('\\') {
            return piece.to_owned();
        }
        let mut out = String::with_capacity(piece.len());
        for c in piece.chars() {
            if self.pending.is_empty() && c != '\\' {
                out.push(c);
                continue;
            }
            self.pending.push(c);
            if self.is_complete() {
                match self.meaning() {
                    Some(c) => out.push(c),
                    None => out.push_str(&self.pending),
                }
                self.pending.clear();
            }
        }
        out
    }

    pub(super) fn finish(&mut self) -> String {
        std::mem::take(&mut self.pending)
    }

    fn is_complete(&self) -> bool {
        let is_long = self.pending.starts_with("\\u");
        let is_hex = self.pending.chars().skip(2).all(|c| c.is_ascii_hexdigit());
        match self.pending.len() {
            0 | 1 => false,
            length => !is_long || !is_hex || length >= MAX_ESCAPE,
        }
    }

    /// Returns the character of the pending escape if it needs no escape.
    fn meaning(&self) -> Option<char> {
        let code = u8::from_str_radix(self.pending.strip_prefix("\\u00")?, 16).ok()?;
        let c = char::from(code);
        (c.is_ascii_alphanumeric() || "-_.+=~/".contains(c)).then_some(c)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pieces: &[&str]) -> String {
        let mut unescaper = Unescaper::default();
        let mut out: String = pieces.iter().map(|piece| unescaper.push(piece)).collect();
        out.push_str(&unescaper.finish());
        out
    }

    #[test]
    fn letters_are_unescaped_without_changing_the_meaning() {
        let json = r#"{"a\u0062\u002f\/":"\u0022\u005c\\u0041\n\u00e4\ud83d\ude00x\u007A"}"#;
        let expected: serde_json::Value = serde_json::from_str(json).unwrap();
        for at in 0..json.len() {
            let out = of(&[&json[..at], &json[at..]]);
            assert_eq!(out, r#"{"ab/\/":"\u0022\u005c\\u0041\n\u00e4\ud83d\ude00xz"}"#);
            assert_eq!(serde_json::from_str::<serde_json::Value>(&out).unwrap(), expected);
        }
    }

    #[test]
    fn invalid_escapes_are_unchanged() {
        assert_eq!(of(&["\\u00", "zz \\"]), "\\u00zz \\");
        assert_eq!(of(&["\\uäb"]), "\\uäb");
    }
}
