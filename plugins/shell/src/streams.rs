//! The start and the end of an output stream, as text for the model.

use pinion_plugin_sdk::process::Captured;
use std::borrow::Cow;

/// Maximum bytes to show of each stream, half from its start and half from its end.
pub(crate) const BYTES: usize = 50 * 1024;
/// Maximum lines to show of each stream, half from its start and half from its end.
pub(crate) const LINES: usize = 2_000;

/// An output stream as text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Text {
    pub(crate) text: String,
    /// The middle was omitted.
    pub(crate) truncated: bool,
}

/// Converts captured output to bounded text. Bytes that are not UTF-8 become U+FFFD.
pub(crate) fn text(captured: &Captured) -> Text {
    let kept = (captured.head.len() + captured.tail.len()) as u64;
    let left_out = captured.total.saturating_sub(kept);
    let (head, tail) = if left_out == 0 {
        (readable(&[&*captured.head, &*captured.tail].concat()), String::new())
    } else {
        (readable(whole_start(&captured.head)), readable(whole_end(&captured.tail)))
    };
    if left_out == 0 && head.len() <= BYTES && head.matches('\n').count() <= LINES {
        return Text { text: head, truncated: false };
    }
    let start = first(&head, LINES / 2, BYTES / 2);
    let rest = if left_out == 0 { &head[start.len()..] } else { &tail };
    let end = last(rest, LINES / 2, BYTES / 2);
    let more = left_out + (head.len() + tail.len() - start.len() - end.len()) as u64;
    let (start, end) = (start.trim_end_matches('\n'), end.trim_start_matches('\n'));
    Text { text: format!("{start}\n[... {more} bytes omitted ...]\n{end}"), truncated: true }
}

/// Removes NULs and the sequences of terminals, converts CRLF to LF, and keeps the final state of lines that were overwritten, as by
/// progress bars.
fn readable(bytes: &[u8]) -> String {
    let text = without_sequences(&String::from_utf8_lossy(bytes)).replace('\0', "").replace("\r\n", "\n");
    if !text.contains('\r') {
        return text;
    }
    let lines = text.split_inclusive('\n');
    lines.map(|line| line.trim_end_matches('\r').rsplit('\r').next().unwrap_or_default()).collect()
}

/// Removes colours, titles, links and all other sequences that a terminal does not show. One that is unfinished ends with its line.
fn without_sequences(text: &str) -> Cow<'_, str> {
    if !text.contains('\u{1b}') {
        return Cow::Borrowed(text);
    }
    let mut parts = text.split('\u{1b}');
    let mut shown = parts.next().unwrap_or_default().to_owned();
    // The text of a title may end with `ESC \`, which is a sequence as well.
    parts.for_each(|part| shown.push_str(after_sequence(part)));
    Cow::Owned(shown)
}

/// Returns the rest of a text behind the sequence at its beginning, whose ESC is left out.
fn after_sequence(text: &str) -> &str {
    let bytes = text.as_bytes();
    let end = match bytes.first() {
        None => 0,
        Some(b'[') => {
            let body = bytes[1..].iter().take_while(|byte| matches!(byte, 0x20..=0x3f)).count();
            1 + body + usize::from(bytes.get(1 + body).is_some_and(|last| matches!(last, 0x40..=0x7e)))
        }
        Some(b']' | b'P' | b'X' | b'^' | b'_') => {
            let end = bytes.iter().position(|byte| matches!(byte, 0x07 | b'\n'));
            end.map_or(bytes.len(), |end| end + usize::from(bytes[end] == 0x07))
        }
        Some(_) => {
            let body = bytes.iter().take_while(|byte| matches!(byte, 0x20..=0x2f)).count();
            body + usize::from(bytes.get(body).is_some_and(|last| matches!(last, 0x30..=0x7e)))
        }
    };
    &text[end..]
}

/// Removes a partial character at the end.
fn whole_start(bytes: &[u8]) -> &[u8] {
    let is_part = |n: &usize| {
        let end = std::str::from_utf8(&bytes[bytes.len() - n..]);
        end.is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
    };
    let part = (1..=bytes.len().min(3)).find(is_part).unwrap_or(0);
    &bytes[..bytes.len() - part]
}

/// Removes a partial character at the start.
fn whole_end(bytes: &[u8]) -> &[u8] {
    let parts = bytes.iter().take(3).take_while(|byte| **byte & 0xc0 == 0x80).count();
    &bytes[parts..]
}

/// Returns the first lines that fit, or the start of a single line that does not.
fn first(text: &str, lines: usize, bytes: usize) -> &str {
    let end = text.match_indices('\n').nth(lines - 1).map_or(text.len(), |(at, _)| at + 1);
    let kept = &text[..text.floor_char_boundary(end.min(bytes))];
    if kept.len() == text.len() {
        return kept;
    }
    kept.rfind('\n').map_or(kept, |at| &kept[..=at])
}

/// Returns the last lines that fit, or the end of a single line that does not.
fn last(text: &str, lines: usize, bytes: usize) -> &str {
    let body = text.strip_suffix('\n').unwrap_or(text);
    let start = body.rmatch_indices('\n').nth(lines - 1).map_or(0, |(at, _)| at + 1);
    let kept = &text[text.ceil_char_boundary(start.max(text.len().saturating_sub(bytes)))..];
    if kept.len() == text.len() || text[..text.len() - kept.len()].ends_with('\n') {
        return kept;
    }
    match kept.find('\n') {
        Some(at) if at + 1 < kept.len() => &kept[at + 1..],
        _ => kept,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn whole(text: &str) -> Captured {
        Captured { head: text.into(), tail: Vec::new(), total: text.len() as u64 }
    }

    fn cut(head: &[u8], tail: &[u8], total: u64) -> Captured {
        Captured { head: head.to_vec(), tail: tail.to_vec(), total }
    }

    fn shown(captured: &Captured) -> String {
        text(captured).text
    }

    #[test]
    fn short_stream_is_shown_unchanged() {
        assert_eq!(text(&whole("a\nb\n")), Text { text: "a\nb\n".into(), truncated: false });
    }

    #[test]
    fn many_lines_are_cut_in_the_middle() {
        let lines: String = (1..=3_000).map(|i| format!("{i}\n")).collect();
        let text = text(&whole(&lines));
        assert!(text.truncated);
        assert!(text.text.starts_with("1\n2\n") && text.text.ends_with("\n2999\n3000\n"));
        assert!(text.text.contains("\n1000\n[... 5000 bytes omitted ...]\n2001\n"), "{}", &text.text[3_800..4_000]);
    }

    #[test]
    fn bytes_omitted_by_the_host_are_counted() {
        let captured = cut(b"one\ntw", b"ree\nfour\n", 1_000);
        assert_eq!(shown(&captured), "one\ntw\n[... 985 bytes omitted ...]\nree\nfour\n");
    }

    #[test]
    fn character_split_by_the_host_is_dropped() {
        let captured = cut(&[b'a', 0xe2, 0x82], &[0x82, 0xac, b'z'], 100);
        assert_eq!(shown(&captured), "a\n[... 94 bytes omitted ...]\nz");
    }

    #[test]
    fn overwritten_lines_show_their_final_state() {
        assert_eq!(shown(&whole("a\r\n10%\r50%\r100%\ndone\r")), "a\n100%\ndone");
    }

    #[test]
    fn sequences_of_terminals_are_removed() {
        for (printed, text) in [
            ("\u{1b}[1;31merror\u{1b}[0m: x\u{1b}[K\n", "error: x\n"),
            ("\u{1b}]0;a title\u{7}done\n", "done\n"),
            ("\u{1b}]8;;https://a.example\u{1b}\\link\u{1b}]8;;\u{1b}\\ end\n", "link end\n"),
            ("\u{1b}[38:2::1:2:3mx\u{1b}[m\u{1b}(B\u{1b}=y\u{1b}7\n", "xy\n"),
            ("\u{1b}Pq#0\u{1b}\\a\u{1b}_Gi=1;AAAA\u{1b}\\b\n", "ab\n"),
            ("\u{1b}]0;unfinished\nnext\u{1b}", "\nnext"),
            ("\u{1b}[31ä\u{1b}ö\u{1b}\u{1b}[0mz\n", "äöz\n"),
            ("a\u{1b}\\b C:\\x\n", "ab C:\\x\n"),
        ] {
            assert_eq!(shown(&whole(printed)), text, "{printed:?}");
        }
    }

    #[test]
    fn nuls_are_dropped_and_invalid_bytes_replaced() {
        assert_eq!(shown(&cut(b"a\0b\xffc", b"", 5)), "ab\u{fffd}c");
    }

    #[test]
    fn single_long_line_keeps_start_and_end() {
        let text = text(&whole(&format!("start{}end", "x".repeat(2 * BYTES))));
        assert!(text.text.starts_with("startx") && text.text.ends_with("xend"));
        assert!(text.text.contains("x\n[... 51208 bytes omitted ...]\nx"));
    }

    proptest! {
        #[test]
        fn output_is_bounded_and_splits_no_character(
            part in "[a\u{e9}\u{20ac}\u{1f600}\n\r]{1,12}", repeat in 1usize..20_000, head in 0usize..1_000, gap: bool,
        ) {
            let all = part.repeat(repeat);
            let all = &all.as_bytes()[..all.len().min(400_000)];
            let captured = if gap {
                cut(&all[..head.min(all.len())], &all[all.len() - head.min(all.len())..], all.len() as u64 + 2_000)
            } else {
                cut(all, b"", all.len() as u64)
            };
            let text = text(&captured);
            prop_assert!(text.text.len() <= BYTES + 60);
            prop_assert!(text.text.matches('\n').count() <= LINES + 2);
            if all.len() < 400_000 && !gap {
                prop_assert!(!text.text.contains(char::REPLACEMENT_CHARACTER));
            }
        }

        #[test]
        fn split_at_any_byte_leaves_complete_characters(text in "[a\u{e9}\u{20ac}\u{1f600}]{0,12}", at in 0usize..40) {
            let bytes = text.as_bytes();
            let (start, end) = bytes.split_at(at.min(bytes.len()));
            prop_assert!(std::str::from_utf8(whole_start(start)).is_ok());
            prop_assert!(std::str::from_utf8(whole_end(end)).is_ok());
            prop_assert!(start.len() - whole_start(start).len() < 4 && end.len() - whole_end(end).len() < 4);
        }

        #[test]
        fn start_and_end_are_substrings(text in "[a\u{20ac}\n]{0,60}", lines in 1usize..6, bytes in 0usize..40) {
            let (start, end) = (first(&text, lines, bytes), last(&text, lines, bytes));
            prop_assert!(text.starts_with(start) && text.ends_with(end));
            prop_assert!(start.len() <= bytes && end.len() <= bytes);
            prop_assert!(start.lines().count() <= lines && end.lines().count() <= lines);
        }
    }
}
