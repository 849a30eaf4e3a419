//! The text of messages before they are parsed: bounds on the number of values, and repairs of servers' mistakes.
//!
//! One pass over the bytes. It copies nothing unless it changes something, so that a message costs no more memory than its bytes
//! until it is known to be bounded.

use std::borrow::Cow;

use crate::limits::{MAX_LIST, MAX_VALUES};

/// A message with too many values.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooMany;

/// Returns a message in a form that can be parsed.
///
/// - Halves of surrogate pairs become U+FFFD: JavaScript servers that cut a text split pairs.
/// - So do bytes that are not UTF-8, in any text.
/// - Control characters in texts are escaped.
/// - `NaN` and the infinities become `null`, as JavaScript writes them.
/// - Lists of a result, other than its structured content, end after [`MAX_LIST`] entries.
///
/// # Errors
/// The rest has more than [`MAX_VALUES`] values.
pub(super) fn prepare(text: &[u8]) -> Result<Cow<'_, [u8]>, TooMany> {
    match std::str::from_utf8(text) {
        Ok(_) => JsonScan::new(text).run(),
        Err(_) => {
            let text = String::from_utf8_lossy(text).into_owned().into_bytes();
            Ok(Cow::Owned(JsonScan::new(&text).run()?.into_owned()))
        }
    }
}

/// The state of the pass.
struct JsonScan<'a> {
    text: &'a [u8],
    at: usize,
    /// The changed text, and the end of the part that it has.
    changed: Option<Vec<u8>>,
    copied: usize,
    depth: usize,
    values: usize,
    /// The last names of members of the message and of its result.
    names: [&'a [u8]; 2],
    /// Entries of the list that is being read, if its length is bounded.
    entries: Option<usize>,
    /// The end of the entries that are kept of a list that is too long.
    cut: Option<usize>,
}

/// Depth within a list of a result.
const IN_LIST: usize = 3;

impl<'a> JsonScan<'a> {
    fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0, changed: None, copied: 0, depth: 0, values: 0, names: [b""; 2], entries: None, cut: None }
    }

    fn run(mut self) -> Result<Cow<'a, [u8]>, TooMany> {
        while let Some(byte) = self.text.get(self.at).copied() {
            match byte {
                b'"' => self.string(),
                b'{' | b'[' => {
                    self.count()?;
                    self.depth += 1;
                    if self.depth == IN_LIST && byte == b'[' && self.is_bounded() {
                        self.entries = Some(1);
                    }
                }
                b'}' | b']' => {
                    if self.depth == IN_LIST {
                        self.end_list();
                    }
                    self.depth = self.depth.saturating_sub(1);
                }
                b',' => {
                    self.count()?;
                    self.end_entry();
                }
                b'N' | b'I' | b'-' => self.number_of_no_json(),
                _ => {}
            }
            self.at += 1;
        }
        let (text, copied) = (self.text, self.copied);
        Ok(match self.changed {
            None => Cow::Borrowed(text),
            Some(mut changed) => {
                changed.extend_from_slice(&text[copied..]);
                Cow::Owned(changed)
            }
        })
    }

    /// Counts a value that is kept.
    fn count(&mut self) -> Result<(), TooMany> {
        self.values += usize::from(self.cut.is_none());
        if self.values > MAX_VALUES { Err(TooMany) } else { Ok(()) }
    }

    fn is_bounded(&self) -> bool {
        self.names[0] == b"result" && self.names[1] != b"structuredContent"
    }

    fn end_entry(&mut self) {
        let Some(entries) = self.entries.as_mut().filter(|_| self.depth == IN_LIST) else { return };
        if *entries == MAX_LIST && self.cut.is_none() {
            self.cut = Some(self.at);
        }
        *entries += 1;
    }

    fn end_list(&mut self) {
        self.entries = None;
        if let Some(start) = self.cut.take() {
            self.replace(start, self.at, b"");
        }
    }

    /// Reads a string, up to its closing quotation mark.
    fn string(&mut self) {
        let start = self.at + 1;
        self.at = start;
        while let Some(byte) = self.text.get(self.at).copied() {
            match byte {
                b'"' => break,
                b'\\' if self.text.get(self.at + 1) == Some(&b'u') => {
                    let (unit, next) = (self.unit(self.at), self.unit(self.at + 6));
                    match (unit, next) {
                        (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => self.at += 12,
                        (Some(0xd800..=0xdfff), _) => {
                            self.replace(self.at, self.at + 6, b"\\ufffd");
                            self.at += 6;
                        }
                        _ => self.at += 2,
                    }
                }
                b'\\' => self.at += 2,
                0..0x20 => {
                    let escaped = format!("\\u{byte:04x}");
                    self.replace(self.at, self.at + 1, escaped.as_bytes());
                    self.at += 1;
                }
                _ => self.at += 1,
            }
        }
        if let Some(name) = self.depth.checked_sub(1).and_then(|depth| self.names.get_mut(depth)) {
            // The last string before a bracket is the name of its member.
            *name = &self.text[start..self.at.min(self.text.len())];
        }
    }

    /// Returns the code unit of an escape such as `\ud83d`.
    fn unit(&self, at: usize) -> Option<u16> {
        let digits = self.text.get(at..at + 6)?.strip_prefix(b"\\u")?;
        let is_hex = digits.iter().all(u8::is_ascii_hexdigit);
        u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok().filter(|_| is_hex)
    }

    /// Replaces a number that JSON does not have, as Python writes it.
    fn number_of_no_json(&mut self) {
        for word in [&b"NaN"[..], b"Infinity", b"-Infinity"] {
            if self.text[self.at..].starts_with(word) {
                self.replace(self.at, self.at + word.len(), b"null");
                self.at += word.len() - 1;
                return;
            }
        }
    }

    /// Replaces a part of the text, unless it is in a part that is left out.
    fn replace(&mut self, start: usize, end: usize, by: &[u8]) {
        if self.cut.is_some() {
            return;
        }
        let changed = self.changed.get_or_insert_default();
        changed.extend_from_slice(&self.text[self.copied..start]);
        changed.extend_from_slice(by);
        self.copied = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn prepared(text: &str) -> String {
        String::from_utf8(prepare(text.as_bytes()).unwrap().into_owned()).unwrap()
    }

    #[test]
    fn halves_of_surrogate_pairs_are_replaced() {
        for (text, expected) in [
            (r#""a\ud83d""#, r#""a\ufffd""#),
            (r#""\ude00a""#, r#""\ufffda""#),
            (r#""\ud83d\ud83d\ude00""#, r#""\ufffd\ud83d\ude00""#),
            (r#""\uD83D\n""#, r#""\ufffd\n""#),
            (r#""\ud83d\ude00 \\ud83d \u00e9""#, r#""\ud83d\ude00 \\ud83d \u00e9""#),
            (r#"{"\udc00":1}"#, r#"{"\ufffd":1}"#),
        ] {
            assert_eq!(prepared(text), expected);
            serde_json::from_str::<Value>(expected).unwrap();
        }
    }

    #[test]
    fn other_texts_that_json_does_not_have_are_repaired() {
        assert_eq!(
            prepared("{\"a\":NaN,\"b\":[-Infinity,Infinity],\"c\":-1}"),
            "{\"a\":null,\"b\":[null,null],\"c\":-1}"
        );
        assert_eq!(prepared("\"NaN\tInfinity\""), "\"NaN\\u0009Infinity\"");
        let cut = prepare(b"{\"a\":\"\xc3\"}").unwrap();
        assert_eq!(serde_json::from_slice::<Value>(&cut).unwrap(), json!({ "a": "\u{fffd}" }));
    }

    #[test]
    fn intact_message_is_not_copied() {
        let text = br#"{"result":{"content":[{"type":"text","text":"\ud83d\ude00 \"x\" \\"}]}}"#;
        assert!(matches!(prepare(text), Ok(Cow::Borrowed(_))));
        for broken in [&b"\"\\"[..], b"\"\\u", b"\"\\ud83d", b"\"", b"]]}", b"{\"a\":\"b", b"-", b"N"] {
            let _ = prepare(broken);
        }
    }

    #[test]
    fn lists_of_results_are_bounded_and_structured_content_is_not_cut() {
        let message = |name: &str, count: usize| {
            let part = json!({ "type": "text", "text": "a,[\u{1}", "x": [1, { "y": [2, 3] }] });
            json!({ "result": { "before": [1], name: vec![part; count], "after": "x" } })
        };
        let read = |message: &Value| serde_json::from_str::<Value>(&prepared(&message.to_string())).unwrap();
        for count in [0, 1, MAX_LIST] {
            let whole = message("content", count);
            assert_eq!(read(&whole), whole);
        }
        let cut = read(&message("tools", MAX_LIST + 100));
        assert_eq!(cut, message("tools", MAX_LIST));
        let structured = message("structuredContent", MAX_LIST + 1);
        assert_eq!(read(&structured), structured);
    }

    #[test]
    fn number_of_values_is_bounded_but_entries_that_are_cut_do_not_count() {
        let message = |name: &str, part: &str| {
            format!("{{\"result\":{{\"{name}\":[{}]}}}}", vec![part; MAX_VALUES + 1].join(","))
        };
        assert_eq!(prepare(message("structuredContent", "0").as_bytes()), Err(TooMany));
        assert!(prepared(&message("content", "{}")).len() < 4 * MAX_LIST);
        let inside = format!("{{\"result\":{{\"tools\":[{{\"icons\":[{}]}}]}}}}", vec!["{}"; MAX_VALUES].join(","));
        assert_eq!(prepare(inside.as_bytes()), Err(TooMany));
    }
}
