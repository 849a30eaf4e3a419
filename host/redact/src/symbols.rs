//! Reads a text without the escapes that encoders of JSON and URLs insert.

/// Maximum number of skipped signs between two symbols, and of backslashes in a row.
const MAX_SKIPPED: usize = 8;
/// Maximum repetitions of `25` in a percent escape of a percent escape.
const MAX_REPEATED: usize = 4;

/// A byte of a text, and the range that spells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Symbol {
    pub(super) byte: u8,
    pub(super) start: usize,
    pub(super) end: usize,
}

/// The symbols of a text: `%XX` and `\u00XX` count as the byte that they spell, also when they are escaped again. Line breaks
/// and backslashes are skipped. Ends before an escape that the end of the text cuts.
pub(super) struct Symbols<'a> {
    text: &'a [u8],
    at: usize,
    skipped: usize,
    is_cut: bool,
}

impl<'a> Symbols<'a> {
    pub(super) fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0, skipped: 0, is_cut: false }
    }

    /// Returns the next symbol at or after `at`, where an earlier symbol ends.
    pub(super) fn next_from(&mut self, at: usize) -> Option<Symbol> {
        (self.at, self.skipped) = (at, 0);
        self.next()
    }

    /// Returns the position of an escape at the end of the text that is incomplete.
    pub(super) fn incomplete_at(&self) -> Option<usize> {
        self.is_cut.then_some(self.at)
    }

    /// Reads a symbol at a byte that may need more than a look.
    fn special(&mut self, first: u8) -> Option<Symbol> {
        match first {
            b'\\' => self.backslash(),
            b'%' => self.percent(),
            byte => Some(self.symbol(byte, 1)),
        }
    }

    /// Reads an escape of JSON, or the backslashes before another sign.
    fn backslash(&mut self) -> Option<Symbol> {
        let start = self.at;
        let rest = &self.text[start..];
        let slashes = rest.iter().take(MAX_SKIPPED).take_while(|byte| **byte == b'\\').count();
        match rest[slashes..] {
            [] if slashes < MAX_SKIPPED => None,
            [b'n' | b'r', ..] => Some(self.symbol(b'\n', slashes + 1)),
            [b'u', ref digits @ ..] if is_start_of_hex(digits, 4) => {
                let code = hex(digits.get(..2)?).zip(hex(digits.get(2..4)?));
                match code {
                    Some((0, byte)) if byte.is_ascii() => Some(self.symbol(byte, slashes + 5)),
                    _ => Some(self.symbol(b'u', slashes + 1)),
                }
            }
            [b'%', ..] => {
                self.at += slashes;
                let symbol = self.percent();
                if symbol.is_none() {
                    self.at = start;
                }
                symbol.map(|symbol| Symbol { start, ..symbol })
            }
            [byte, ..] if byte != b'\\' => Some(self.symbol(byte, slashes + 1)),
            _ => Some(self.symbol(b'\\', slashes)),
        }
    }

    /// Reads a percent escape, or a percent sign.
    fn percent(&mut self) -> Option<Symbol> {
        let mut length = 1;
        for _ in 0..MAX_REPEATED {
            length += if self.text[self.at + length..].starts_with(b"25") { 2 } else { 0 };
        }
        let digits = &self.text[self.at + length..];
        match digits.get(..2).and_then(hex) {
            Some(byte) => Some(self.symbol(byte, length + 2)),
            None if digits.len() < 2 && is_start_of_hex(digits, 2) => None,
            None => Some(self.symbol(b'%', length)),
        }
    }

    fn symbol(&mut self, byte: u8, length: usize) -> Symbol {
        let start = self.at;
        self.at += length;
        Symbol { byte, start, end: self.at }
    }
}

impl Iterator for Symbols<'_> {
    type Item = Symbol;

    #[inline]
    fn next(&mut self) -> Option<Symbol> {
        loop {
            let byte = *self.text.get(self.at)?;
            if !is_special(byte) {
                self.skipped = 0;
                return Some(self.symbol(byte, 1));
            }
            let Some(symbol) = self.special(byte) else {
                self.is_cut = true;
                return None;
            };
            if !matches!(symbol.byte, b'\n' | b'\r' | b'\\') || self.skipped == MAX_SKIPPED {
                self.skipped = 0;
                return Some(symbol);
            }
            self.skipped += 1;
        }
    }
}

/// Returns whether a byte may be part of an escape, or skipped.
pub(super) fn is_special(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\r' | b'\\' | b'%')
}

/// Returns whether at most `length` hexadecimal digits are there, and nothing else before that.
fn is_start_of_hex(digits: &[u8], length: usize) -> bool {
    digits.iter().take(length).all(u8::is_ascii_hexdigit)
}

fn hex(digits: &[u8]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let &[high, low] = digits else { return None };
    u8::try_from(digit(high)? << 4 | digit(low)?).ok()
}

/// Returns the same byte for upper and lower case, for the signs that differ between the alphabets of base64, and for
/// the two ways that forms encode a space.
pub(super) fn folded(byte: u8) -> u8 {
    match byte {
        b'-' | b' ' => b'+',
        b'_' => b'/',
        byte => byte.to_ascii_lowercase(),
    }
}

/// Returns the folded symbols of a complete text.
pub(super) fn symbols(text: &[u8]) -> Vec<u8> {
    let mut symbols = Symbols::new(text);
    let mut folded_symbols: Vec<u8> = symbols.by_ref().map(|symbol| folded(symbol.byte)).collect();
    folded_symbols.extend(text[symbols.at..].iter().filter(|byte| **byte != b'\\').map(|byte| folded(*byte)));
    folded_symbols
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(escaped: &str) -> String {
        String::from_utf8(symbols(escaped.as_bytes())).unwrap()
    }

    #[test]
    fn escapes_of_json_and_urls_are_the_bytes_that_they_spell() {
        for (escaped, plain) in [
            (r"\u0061b\u002f\/\\/", "ab///"),
            (r"\\u0061 \\\u0062 \u00e4", "a+b+u00e4"),
            ("%41%2f%2541%252541", "a/aa"),
            ("%zz %2 100%", "%zz+%2+100%"),
            (r#"\"a\\\"b"#, "\"a\"b"),
            ("ab\r\ncd\\ne", "abcde"),
            (r"\%41", "a"),
            (r"a\\", "a"),
            (r"a%5cb\u005cc%0Ad", "abcd"),
        ] {
            assert_eq!(text(escaped), plain, "{escaped}");
        }
    }

    #[test]
    fn ranges_cover_the_text() {
        let text = br"a\u0062%2541\\c";
        let ranges: Vec<_> = Symbols::new(text).map(|symbol| (symbol.start, symbol.end)).collect();
        assert_eq!(ranges, [(0, 1), (1, 7), (7, 12), (12, 15)]);
    }

    #[test]
    fn incomplete_escape_is_no_symbol() {
        for escaped in ["ab%", "ab%4", "ab%25", "ab%254", r"ab\", r"ab\u", r"ab\u00", r"ab\\u006", r"ab\%4"] {
            let mut symbols = Symbols::new(escaped.as_bytes());
            assert_eq!((symbols.by_ref().count(), symbols.incomplete_at()), (2, Some(2)), "{escaped}");
        }
    }

    #[test]
    fn sign_that_begins_no_escape_does_not_wait_for_more() {
        let read = |text: &str| {
            let mut symbols = Symbols::new(text.as_bytes());
            (symbols.by_ref().count(), symbols.incomplete_at().is_some())
        };
        for (plain, count) in [("ab%g", 4), ("ab%25g", 4), (r"ab\ug", 4), (r"ab\u0g", 5)] {
            assert_eq!(read(plain), (count, false), "{plain}");
        }
        for escape in ["ab%2", r"ab\u00"] {
            assert_eq!(read(escape), (2, true), "{escape}");
        }
    }

    #[test]
    fn long_runs_are_read_to_their_end() {
        for run in ["\\", "\n", "\\n", "%25", "%"] {
            let text = run.repeat(1000) + "!x";
            let mut symbols = Symbols::new(text.as_bytes());
            assert!(symbols.by_ref().last().is_some_and(|symbol| symbol.byte == b'x'), "{run:?}");
            assert_eq!(symbols.incomplete_at(), None);
        }
    }
}
