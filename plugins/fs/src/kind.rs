//! File types, detected from the first bytes and never from the name.

/// Number of leading bytes that [`of`] needs, unless the file is shorter.
pub(crate) const START: usize = 8 * 1024;

/// The type of a file's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An image that models accept; its media type.
    Image(&'static str),
    /// Not text; a description.
    Binary(&'static str),
    /// Everything else.
    Text,
}

const BINARY: &[(&[u8], &str)] = &[
    (b"\x7fELF", "an ELF program or library"),
    (b"\0asm", "WebAssembly"),
    (b"%PDF-", "a PDF document"),
    (b"PK\x03\x04", "a ZIP archive"),
    (b"\x1f\x8b", "gzip data"),
    (b"BZh", "bzip2 data"),
    (b"\xfd7zXZ\0", "xz data"),
    (b"\x28\xb5\x2f\xfd", "zstd data"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"SQLite format 3\0", "an SQLite database"),
    (b"\xca\xfe\xba\xbe", "a Java class or a Mach-O program"),
    (b"\xcf\xfa\xed\xfe", "a Mach-O program"),
    (b"!<arch>\n", "an archive of object files"),
    (b"\xff\xfe", "UTF-16 text, which `iconv` can convert"),
    (b"\xfe\xff", "UTF-16 text, which `iconv` can convert"),
];

/// Detects the type from the first [`START`] bytes.
pub(crate) fn of(start: &[u8]) -> Kind {
    if let Some(media_type) = image(start) {
        return Kind::Image(media_type);
    }
    if let Some((_, name)) = BINARY.iter().find(|(magic, _)| start.starts_with(magic)) {
        return Kind::Binary(name);
    }
    // Like git and ripgrep: text contains no NUL.
    if memchr::memchr(0, start).is_some() { Kind::Binary("binary data of unknown type") } else { Kind::Text }
}

fn image(start: &[u8]) -> Option<&'static str> {
    match start {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_detected_by_their_first_bytes() {
        assert_eq!(of(b"\x89PNG\r\n\x1a\n\0\0"), Kind::Image("image/png"));
        assert_eq!(of(b"\xff\xd8\xff\xe0"), Kind::Image("image/jpeg"));
        assert_eq!(of(b"GIF89a"), Kind::Image("image/gif"));
        assert_eq!(of(b"RIFF\x01\x02\x03\x04WEBPVP8 "), Kind::Image("image/webp"));
        assert_eq!(of(b"RIFF\x01\x02\x03\x04WAVE\0"), Kind::Binary("binary data of unknown type"));
    }

    #[test]
    fn nul_or_known_magic_means_binary() {
        assert_eq!(of(b"%PDF-1.7 and so on"), Kind::Binary("a PDF document"));
        assert_eq!(of(b"text\0text"), Kind::Binary("binary data of unknown type"));
        assert_eq!(of(b""), Kind::Text);
        assert_eq!(of(b"caf\xe9"), Kind::Text);
        assert_eq!(of(b"\xef\xbb\xbftext"), Kind::Text);
    }
}
