//! Properties of an overwritten file that its new content keeps: line endings, byte order mark and encoding.
//!
//! A model sees none of these when it reads a file, so it cannot mean to change them.

use crate::kind::{self, Kind};

const BYTE_ORDER_MARK: char = '\u{feff}';

/// The content to write, and a remark about it for the user.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Overwrite {
    pub(crate) content: String,
    pub(crate) notes: Vec<String>,
}

/// Adapts new content to the file that it replaces.
///
/// # Errors
/// The file is text in an encoding that the new content would change. The error gives the reason.
pub(crate) fn overwrite(old: &[u8], new: String) -> Result<Overwrite, String> {
    let mut notes = Vec::new();
    if let Kind::Binary(what) | Kind::Image(what) = kind::of(&old[..old.len().min(kind::START)]) {
        if old.starts_with(b"\xff\xfe") || old.starts_with(b"\xfe\xff") {
            return Err(format!("it is UTF-16 text, and write would make it UTF-8; {CONVERT}"));
        }
        notes.push(format!("it was not text before ({what})"));
        return Ok(Overwrite { content: new, notes });
    }
    let Ok(text) = std::str::from_utf8(old) else {
        let valid = old.utf8_chunks().next().map_or(0, |chunk| chunk.valid().len());
        let line = memchr::memchr_iter(b'\n', &old[..valid]).count() + 1;
        // Encodings of text that is not UTF-16 have the letters of ASCII in common.
        if !new.is_ascii() {
            return Err(format!("it is not UTF-8 (line {line}), and write would change its encoding; {CONVERT}"));
        }
        notes.push(format!("it was not UTF-8 before (line {line}); the new text is plain ASCII"));
        let content = with_endings(Endings::of(old), new, &mut notes);
        return Ok(Overwrite { content, notes });
    };
    let has_mark = |text: &str| text.starts_with(BYTE_ORDER_MARK);
    let mut content = with_endings(Endings::of(text.as_bytes()), new, &mut notes);
    match (has_mark(text), has_mark(&content)) {
        (true, false) => {
            content.insert(0, BYTE_ORDER_MARK);
            notes.insert(0, "kept its byte order mark".to_owned());
        }
        (false, true) => notes.push("it begins with a byte order mark now".to_owned()),
        _ => {}
    }
    Ok(Overwrite { content, notes })
}

const CONVERT: &str = "convert it with `iconv` first, or remove it if its encoding should change";

fn with_endings(old: Endings, new: String, notes: &mut Vec<String>) -> String {
    match (old, Endings::of(new.as_bytes())) {
        (Endings::Crlf, Endings::Lf) => {
            notes.push("kept its CRLF line endings".to_owned());
            new.replace('\n', "\r\n")
        }
        (Endings::None, _) | (_, Endings::None) => new,
        (before, now) => {
            if before != now {
                notes.push(format!("its line endings were {} and are {} now", before.word(), now.word()));
            }
            new
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Endings {
    None,
    Lf,
    Crlf,
    Cr,
    Mixed,
}

impl Endings {
    fn of(text: &[u8]) -> Self {
        let all = memchr::memchr_iter(b'\n', text).count();
        let crlf = memchr::memmem::find_iter(text, "\r\n").count();
        let returns = memchr::memchr_iter(b'\r', text).count();
        match all {
            0 if returns > 0 => Self::Cr,
            0 => Self::None,
            _ if crlf == all => Self::Crlf,
            _ if crlf == 0 => Self::Lf,
            _ => Self::Mixed,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::None => "absent",
            Self::Lf => "LF",
            Self::Crlf => "CRLF",
            Self::Cr => "CR",
            Self::Mixed => "mixed",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(old: &[u8], new: &str) -> (String, String) {
        let Overwrite { content, notes } = overwrite(old, new.to_owned()).unwrap();
        (content, notes.join("; "))
    }

    #[test]
    fn uniform_crlf_and_a_mark_are_kept() {
        assert_eq!(after(b"a\r\nb", "x\ny\n"), ("x\r\ny\r\n".into(), "kept its CRLF line endings".into()));
        assert_eq!(after(b"\xef\xbb\xbfa\n", "x\n"), ("\u{feff}x\n".into(), "kept its byte order mark".into()));
        assert_eq!(after("\u{feff}a\n".as_bytes(), "\u{feff}x\n"), ("\u{feff}x\n".into(), String::new()));
        assert_eq!(after(b"a\n", "x\n"), ("x\n".into(), String::new()));
        assert_eq!(after(b"a\r\n", "x"), ("x".into(), String::new()));
    }

    #[test]
    fn other_changes_of_endings_are_reported() {
        for (old, new, note) in [
            ("a\nb\n", "x\r\n", "its line endings were LF and are CRLF now"),
            ("a\nb\r\n", "x\ny\n", "its line endings were mixed and are LF now"),
            ("a\r\n", "x\r\ny\n", "its line endings were CRLF and are mixed now"),
            ("a\rb\r", "x\n", "its line endings were CR and are LF now"),
            ("a\n", "\u{feff}x\n", "it begins with a byte order mark now"),
        ] {
            assert_eq!(after(old.as_bytes(), new), (new.to_owned(), note.to_owned()));
        }
    }

    #[test]
    fn encodings_are_not_changed_without_a_word() {
        for old in [&b"caf\xe9\n"[..], b"\xc4\xe3\xba\xc3\n", b"\xff\xfea\0\n\0", b"\xfe\xff\0a"] {
            let why = overwrite(old, "\u{e9}".to_owned()).unwrap_err();
            assert!(why.contains("UTF-") && why.contains("iconv"), "{why}");
        }
        assert!(overwrite(b"\xff\xfea\0", "x".to_owned()).is_err());
        assert!(after(b"caf\xe9\r\n", "x\n").1.starts_with("it was not UTF-8 before (line 1)"));
        assert_eq!(after(b"\x7fELF\0", "x").1, "it was not text before (an ELF program or library)");
    }
}
