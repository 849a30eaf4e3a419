//! The grammar of git's configs, as in `git help config`.

use std::collections::VecDeque;

/// A setting of a config.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConfigEntry {
    /// The section in small letters.
    pub section: String,
    /// The subsection, as in `[remote "origin"]`.
    pub subsection: Option<Vec<u8>>,
    /// The name in small letters.
    pub name: String,
    /// The value; `None` for a name alone, which means true.
    pub value: Option<Vec<u8>>,
}

impl ConfigEntry {
    /// Returns whether this is a setting, in any subsection.
    pub fn is(&self, section: &str, name: &str) -> bool {
        self.section == section && self.name == name
    }

    /// Returns the value; empty without one.
    pub fn text(&self) -> &[u8] {
        self.value.as_deref().unwrap_or_default()
    }
}

/// Reads all settings of a config. Lines that git fails on may be read in any way.
pub fn parse(text: &[u8]) -> Vec<ConfigEntry> {
    let mut left = Bytes::new(text);
    let (mut found, mut section, mut subsection) = (Vec::new(), String::new(), None);
    while let Some(byte) = left.next() {
        match byte {
            b'[' => (section, subsection) = header(&mut left),
            b'#' | b';' => left.skip_line(),
            _ if byte.is_ascii_whitespace() => {}
            _ => {
                let mut name = vec![byte];
                while let Some(next) = left.next_if(|next| next != b'\n' && next != b'=') {
                    name.push(next);
                }
                let value = left.next_if(|next| next == b'=').map(|_| value(&mut left));
                let name = small(name.trim_ascii());
                found.push(ConfigEntry { section: section.clone(), subsection: subsection.clone(), name, value });
            }
        }
    }
    found
}

/// Reads a config that has only lines with one meaning: headers, and plain values without escapes, each on a separate
/// line. Returns `None` for any other.
pub fn plain(text: &[u8]) -> Option<Vec<ConfigEntry>> {
    let (mut found, mut section) = (Vec::new(), None);
    for line in text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii) {
        if line.iter().any(|byte| byte.is_ascii_control() && *byte != b'\t') {
            return None;
        }
        match line {
            [] | [b'#' | b';', ..] => {}
            [b'[', header @ .., b']'] => section = Some(plain_header(header)?),
            _ => {
                let at = line.iter().position(|byte| *byte == b'=')?;
                let (name, value) = (line[..at].trim_ascii(), line[at + 1..].trim_ascii());
                let is_letter = name.first().is_some_and(u8::is_ascii_alphabetic);
                if !is_letter || !name.iter().all(is_name) {
                    return None;
                }
                let (section, subsection) = section.clone()?;
                found.push(ConfigEntry { section, subsection, name: small(name), value: Some(plain_value(value)?) });
            }
        }
    }
    Some(found)
}

/// Writes settings so that they have one meaning. Leaves out those that git itself would not write.
pub fn render<'a>(entries: impl Iterator<Item = &'a ConfigEntry>) -> Vec<u8> {
    let (mut text, mut last) = (Vec::new(), None);
    for entry in entries {
        let Some(header) =
            rendered_header(entry).filter(|_| !entry.name.is_empty() && entry.name.bytes().all(|b| is_name(&b)))
        else {
            continue;
        };
        if last.as_ref() != Some(&header) {
            text.extend(&header);
            last = Some(header);
        }
        text.push(b'\t');
        text.extend(entry.name.bytes());
        if let Some(value) = &entry.value {
            text.extend(b" = \"");
            for byte in value.iter().filter(|byte| **byte != 0) {
                match byte {
                    b'\n' => text.extend(b"\\n"),
                    b'"' | b'\\' => text.extend([b'\\', *byte]),
                    _ => text.push(*byte),
                }
            }
            text.push(b'"');
        }
        text.push(b'\n');
    }
    text
}

fn rendered_header(entry: &ConfigEntry) -> Option<Vec<u8>> {
    if entry.section.is_empty() || !entry.section.bytes().all(|byte| is_name(&byte)) {
        return None;
    }
    let mut header = vec![b'['];
    header.extend(entry.section.bytes());
    if let Some(subsection) = &entry.subsection {
        if subsection.iter().any(|byte| matches!(byte, b'\n' | 0)) {
            return None;
        }
        header.extend(b" \"");
        for byte in subsection {
            if matches!(byte, b'"' | b'\\') {
                header.push(b'\\');
            }
            header.push(*byte);
        }
        header.push(b'"');
    }
    header.extend(b"]\n");
    Some(header)
}

/// Reads the header of a section behind its bracket.
fn header(left: &mut Bytes<'_>) -> (String, Option<Vec<u8>>) {
    let (mut name, mut subsection, mut is_quoted) = (Vec::new(), None, false);
    while let Some(next) = left.next_if(|next| next != b'\n') {
        match next {
            b']' if !is_quoted => break,
            b'"' => {
                is_quoted = !is_quoted;
                subsection.get_or_insert_with(Vec::new);
            }
            b'\\' if is_quoted => subsection.get_or_insert_with(Vec::new).extend(left.next()),
            _ if is_quoted => subsection.get_or_insert_with(Vec::new).push(next),
            _ => name.push(next),
        }
    }
    let name = small(name.trim_ascii());
    // The older form, `[remote.origin]`.
    match name.split_once('.') {
        Some((section, rest)) => (section.to_owned(), Some(subsection.unwrap_or_else(|| rest.as_bytes().to_vec()))),
        None => (name, subsection),
    }
}

/// Reads a value up to the end of its line.
fn value(left: &mut Bytes<'_>) -> Vec<u8> {
    let (mut value, mut is_quoted, mut is_comment) = (Vec::new(), false, false);
    // Blanks at the end count if they are quoted.
    let mut kept = 0;
    while let Some(next) = left.next() {
        match next {
            b'\n' => break,
            _ if is_comment => {}
            b'\\' => match left.next() {
                Some(b'\n') | None => {}
                Some(b'n') => value.push(b'\n'),
                Some(b't') => value.push(b'\t'),
                Some(b'b') => value.push(8),
                Some(other) => value.push(other),
            },
            b'"' => is_quoted = !is_quoted,
            b'#' | b';' if !is_quoted => is_comment = true,
            _ if next.is_ascii_whitespace() && !is_quoted && value.is_empty() => {}
            other => value.push(other),
        }
        if is_quoted || value.last().is_some_and(|last| !last.is_ascii_whitespace()) {
            kept = value.len();
        }
    }
    value.truncate(kept);
    value
}

fn plain_header(header: &[u8]) -> Option<(String, Option<Vec<u8>>)> {
    let end = header.iter().position(|byte| *byte == b' ').unwrap_or(header.len());
    let (name, rest) = header.split_at(end);
    let subsection = match rest.trim_ascii() {
        [] => None,
        [b'"', inner @ .., b'"'] if !inner.iter().any(|byte| b"\"\\[]".contains(byte)) => Some(inner.to_vec()),
        _ => return None,
    };
    (!name.is_empty() && name.iter().all(is_name)).then(|| (small(name), subsection))
}

fn plain_value(value: &[u8]) -> Option<Vec<u8>> {
    let (inner, is_quoted) = match value {
        [b'"', inner @ .., b'"'] => (inner, true),
        _ => (value, false),
    };
    let is_plain = |byte: &u8| !b"\"\\".contains(byte) && (is_quoted || !b"#;".contains(byte));
    inner.iter().all(is_plain).then(|| inner.to_vec())
}

fn is_name(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || *byte == b'-'
}

fn small(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).to_ascii_lowercase()
}

/// The bytes of a config. A line that ends with a carriage return ends as others do.
struct Bytes<'a> {
    left: &'a [u8],
    /// Bytes that were looked at.
    ahead: VecDeque<u8>,
}

impl<'a> Bytes<'a> {
    fn new(text: &'a [u8]) -> Self {
        Self { left: text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text), ahead: VecDeque::new() }
    }

    fn next(&mut self) -> Option<u8> {
        if let Some(byte) = self.ahead.pop_front() {
            return Some(byte);
        }
        let (byte, rest) = match self.left {
            [b'\r', b'\n', rest @ ..] => (b'\n', rest),
            [byte, rest @ ..] => (*byte, rest),
            [] => return None,
        };
        self.left = rest;
        Some(byte)
    }

    fn next_if(&mut self, is_wanted: impl Fn(u8) -> bool) -> Option<u8> {
        let byte = self.next()?;
        if is_wanted(byte) {
            return Some(byte);
        }
        self.ahead.push_front(byte);
        None
    }

    fn skip_line(&mut self) {
        while self.next_if(|byte| byte != b'\n').is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(section: &str, subsection: Option<&str>, name: &str, value: Option<&str>) -> ConfigEntry {
        ConfigEntry {
            section: section.to_owned(),
            subsection: subsection.map(|text| text.as_bytes().to_vec()),
            name: name.to_owned(),
            value: value.map(|text| text.as_bytes().to_vec()),
        }
    }

    #[test]
    fn values_are_read_as_git_reads_them() {
        let text = "[core]hooksPath=a;b\n[Core \"]\"]\n\tHooksPath = \"c;d\" # x\n hookspath = e\\\nf \\\"g\r\n[a.B]\nflag\n\
                    quoted = \" x \"  \nlast = \\";
        let expected = [
            entry("core", None, "hookspath", Some("a")),
            entry("core", Some("]"), "hookspath", Some("c;d")),
            entry("core", Some("]"), "hookspath", Some("ef \"g")),
            entry("a", Some("b"), "flag", None),
            entry("a", Some("b"), "quoted", Some(" x ")),
            entry("a", Some("b"), "last", Some("")),
        ];
        assert_eq!(parse(text.as_bytes()), expected);
    }

    #[test]
    fn written_settings_are_read_as_they_were() {
        let entries = [
            entry("core", None, "bare", Some("false")),
            entry("remote", Some("a\"]\\ #b"), "url", Some("x # y\n\t\"z\\ ")),
            entry("remote", Some("a\"]\\ #b"), "fetch", Some("")),
            entry("a", None, "flag", None),
        ];
        let text = render(entries.iter());
        assert_eq!(parse(&text), entries, "{}", String::from_utf8_lossy(&text));
        let unusable = [
            entry("a\n[core", None, "x", Some("y")),
            entry("a", Some("b\n"), "x", Some("y")),
            entry("a", None, "x\n[core]\nfsmonitor", Some("y")),
        ];
        assert!(render(unusable.iter()).is_empty());
    }

    #[test]
    fn plain_configs_have_one_meaning() {
        let usual = b"# mine\n[core]\n\tbare = false\n[remote \"origin\"]\n\turl = \"https://a.example/#b\"\n\n";
        assert_eq!(plain(usual).as_deref(), Some(&parse(usual)[..]));
        for text in [
            "[user][core]\n\tfsmonitor = ./x\n",
            "[core] fsmonitor = ./x\n",
            "[user \"]\n[core]\"] name = x\n",
            "[core]\n\tbare = false \\\n\tfsmonitor = ./x\n",
            "[core]\n\tbare = \"x\\\"y\"\n",
            "[core]\n\tbare = a \"b\"\n",
            "[core]\n\tbare = a # b\n",
            "[core]\r\n\tbare = false\r\n",
            "[core.x]\n\tbare = false\n",
            "[core]\n\tbare\n",
            "bare = x\n",
            "[user \"a]b\"]\n\tname = x\n",
        ] {
            // A carriage return at the end of a line is not part of the trimmed line.
            let is_plain = plain(text.as_bytes()).is_some();
            assert_eq!(is_plain, text.contains('\r'), "{text:?}");
        }
    }
}
