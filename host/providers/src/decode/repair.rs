//! Repairs events that are almost JSON.
//!
//! Gateways cut a text between the two halves of a surrogate pair or within a character, name a field twice, or write
//! `NaN`. These faults are no reason to lose the reply.

use serde_json::Value;
use std::iter::Peekable;
use std::str::Chars;

/// Repairs the events of one reply.
#[derive(Debug, Default)]
pub(super) struct EventRepair {
    /// The first half of a surrogate pair at the end of a text, whose second half may begin a later one.
    high: Option<u16>,
}

impl EventRepair {
    /// Returns the event as valid JSON, with the last of several fields of the same name; `None` if it is something else.
    pub(super) fn repair(&mut self, event: &[u8]) -> Option<Vec<u8>> {
        let event = String::from_utf8_lossy(event);
        let mut out = String::with_capacity(event.len());
        let mut rest = event.chars().peekable();
        while let Some(c) = rest.next() {
            match c {
                '"' => {
                    out.push('"');
                    self.text(&mut rest, &mut out);
                }
                'N' | 'I' => {
                    while rest.next_if(char::is_ascii_alphabetic).is_some() {}
                    if out.ends_with('-') {
                        out.pop();
                    }
                    out.push_str("null");
                }
                c => out.push(c),
            }
        }
        let value: Value = serde_json::from_str(&out).ok()?;
        serde_json::to_vec(&value).ok()
    }

    /// Copies a string up to its closing quotation mark.
    fn text(&mut self, rest: &mut Peekable<Chars<'_>>, out: &mut String) {
        while let Some(c) = rest.next() {
            out.push(c);
            match c {
                '"' => return,
                '\\' if rest.peek() == Some(&'u') => {
                    out.pop();
                    rest.next();
                    self.escape(rest, out);
                }
                '\\' => out.extend(rest.next()),
                _ => {}
            }
        }
    }

    /// Copies the text after `\u`. Half a surrogate pair is joined with its other half, or else replaced.
    fn escape(&mut self, rest: &mut Peekable<Chars<'_>>, out: &mut String) {
        let digits: String = (0..4).map_while(|_| rest.next_if(char::is_ascii_hexdigit)).collect();
        let unit = u16::from_str_radix(&digits, 16).unwrap_or_default();
        let low = (0xDC00..=0xDFFF).contains(&unit);
        match self.high.take() {
            Some(high) if low => out.extend(char::decode_utf16([high, unit]).flatten()),
            _ if low => out.push(char::REPLACEMENT_CHARACTER),
            high => {
                out.extend(high.map(|_| char::REPLACEMENT_CHARACTER));
                match unit {
                    0xD800..=0xDBFF if matches!(rest.peek(), Some('"' | '\\')) => self.high = Some(unit),
                    0xD800..=0xDBFF => out.push(char::REPLACEMENT_CHARACTER),
                    _ => {
                        out.push_str("\\u");
                        out.push_str(&digits);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn repaired(events: &[&str]) -> Vec<Option<Value>> {
        let mut repair = EventRepair::default();
        let one = |event: &&str| repair.repair(event.as_bytes()).map(|json| serde_json::from_slice(&json).unwrap());
        events.iter().map(one).collect()
    }

    #[test]
    fn halves_of_surrogate_pairs_are_joined_across_events() {
        let halves = [r#"{"a":"x\ud83d"}"#, r#"{"b":1}"#, r#"{"a":"\uDE00y"}"#];
        let joined = [json!({ "a": "x" }), json!({ "b": 1 }), json!({ "a": "😀y" })];
        assert_eq!(repaired(&halves), joined.map(Some));
        let others = r#"["\\ud83d \u00e4 \ud83d\ude00 \ud83dx \ude00 \ud83d\u0041 \" \n"]"#;
        assert_eq!(repaired(&[others]), [Some(json!(["\\ud83d ä 😀 \u{fffd}x \u{fffd} \u{fffd}A \" \n"]))]);
    }

    #[test]
    fn invalid_utf8_repeated_fields_and_numbers_are_repaired() {
        let text = EventRepair::default().repair(b"{\"a\":\"x\xf0\x9f\"}").unwrap();
        assert_eq!(text, "{\"a\":\"x\u{fffd}\"}".as_bytes());
        let odd = r#"{"a":NaN,"b":[-Infinity,Infinity],"c":1,"c":"NaN"}"#;
        assert_eq!(repaired(&[odd]), [Some(json!({ "a": null, "b": [null, null], "c": "NaN" }))]);
        assert_eq!(
            repaired(&["{", "{\"a\":}", "no JSON", "{\"a\":\"\\u12\"}", "{\"a\":\"\\ud8"]),
            [None, None, None, None, None]
        );
    }
}
