//! Reads a window of numbered lines from a file of any size in bounded memory.

use memchr::{memchr, memchr_iter};
use std::io::{self, BufRead};

/// The range of lines to read, and limits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// First line, counted from 1.
    pub(crate) first: u64,
    /// Maximum number of lines, at least 1.
    pub(crate) lines: u64,
    /// Maximum bytes of numbered text; the first line is always returned.
    pub(crate) bytes: usize,
    /// Maximum bytes of a line; longer lines are cut and marked.
    pub(crate) line_bytes: usize,
    /// Continue to the end of the file to count its lines.
    pub(crate) count_all: bool,
}

/// The lines read.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Window {
    /// Lines numbered as by `cat -n`.
    pub(crate) text: String,
    /// Number of lines in `text`.
    pub(crate) shown: u64,
    /// Number of lines of the file, if its end was reached.
    pub(crate) total: Option<u64>,
    /// Number of lines in `text` that were cut.
    pub(crate) cut: u64,
    /// Number of lines in `text` that end with CRLF.
    pub(crate) crlf: u64,
    /// Some bytes were not UTF-8 and were replaced with U+FFFD.
    pub(crate) lossy: bool,
}

/// Reads a window. `check` runs once per buffer and can stop the read.
///
/// # Errors
/// The errors of `check` and of reading.
pub(crate) fn read<E: From<io::Error>>(
    from: impl BufRead,
    limits: &Limits,
    check: impl Fn() -> Result<(), E>,
) -> Result<Window, E> {
    let mut lines = Lines { from, check };
    let mut window = Window::default();
    let mut passed = lines.skip(limits.first - 1)?;
    let mut ended = passed < limits.first - 1;
    while !ended && window.shown < limits.lines {
        let Some(line) = lines.next(limits.line_bytes)? else {
            ended = true;
            break;
        };
        passed += 1;
        if !window.push(&line, limits) {
            break;
        }
    }
    if !ended && limits.count_all {
        passed += lines.skip(u64::MAX)?;
    }
    window.total = (ended || limits.count_all || lines.at_end()?).then_some(passed);
    Ok(window)
}

impl Window {
    /// Appends a line unless it exceeds the limits.
    fn push(&mut self, line: &Line, limits: &Limits) -> bool {
        let number = limits.first + self.shown;
        let text = line.text(number == 1);
        let mark = if line.left_out > 0 { format!(" [{} more bytes]", line.left_out) } else { String::new() };
        let numbered = format!("{number:>6}\t{text}{mark}\n");
        if self.shown > 0 && self.text.len() + numbered.len() > limits.bytes {
            return false;
        }
        self.text.push_str(&numbered);
        self.shown += 1;
        self.cut += u64::from(line.left_out > 0);
        self.crlf += u64::from(line.crlf);
        self.lossy |= std::str::from_utf8(&line.start).is_err() || line.start.contains(&0);
        true
    }
}

/// A line without its ending.
struct Line {
    start: Vec<u8>,
    /// Number of bytes after `start`.
    left_out: u64,
    crlf: bool,
}

impl Line {
    /// Converts the line to text, without a byte order mark on the first line.
    fn text(&self, first: bool) -> String {
        let start = if first { self.start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&self.start) } else { &self.start };
        String::from_utf8_lossy(start).replace('\0', "\u{fffd}")
    }

    /// Treats a final carriage return as part of the line ending and drops a partial character at the end.
    fn finish(&mut self) {
        match (self.crlf, self.left_out) {
            (true, 0) => drop(self.start.pop()),
            (true, _) => self.left_out -= 1,
            (false, _) => {}
        }
        if self.left_out > 0
            && let Err(error) = std::str::from_utf8(&self.start)
            && error.error_len().is_none()
        {
            self.left_out += (self.start.len() - error.valid_up_to()) as u64;
            self.start.truncate(error.valid_up_to());
        }
    }
}

struct Lines<R, C> {
    from: R,
    check: C,
}

impl<R: BufRead, C: Fn() -> Result<(), E>, E: From<io::Error>> Lines<R, C> {
    /// Skips up to `wanted` lines and returns how many there were; fewer only at the end.
    fn skip(&mut self, wanted: u64) -> Result<u64, E> {
        let (mut passed, mut inside) = (0, false);
        while passed < wanted {
            (self.check)()?;
            let buffer = self.from.fill_buf()?;
            if buffer.is_empty() {
                return Ok(passed + u64::from(inside));
            }
            let mut used = buffer.len();
            for at in memchr_iter(b'\n', buffer) {
                passed += 1;
                if passed == wanted {
                    used = at + 1;
                    break;
                }
            }
            inside = buffer[used - 1] != b'\n';
            self.from.consume(used);
        }
        Ok(passed)
    }

    /// Reads the next line and keeps its first `keep` bytes.
    fn next(&mut self, keep: usize) -> Result<Option<Line>, E> {
        let mut line = Line { start: Vec::new(), left_out: 0, crlf: false };
        let (mut any, mut last) = (false, 0);
        loop {
            if any {
                (self.check)()?;
            }
            let buffer = self.from.fill_buf()?;
            if buffer.is_empty() {
                break;
            }
            any = true;
            let end = memchr(b'\n', buffer);
            let part = &buffer[..end.unwrap_or(buffer.len())];
            let kept = part.len().min(keep - line.start.len());
            line.start.extend_from_slice(&part[..kept]);
            line.left_out += (part.len() - kept) as u64;
            last = part.last().copied().unwrap_or(last);
            let used = part.len() + usize::from(end.is_some());
            self.from.consume(used);
            if end.is_some() {
                line.crlf = last == b'\r';
                break;
            }
        }
        line.finish();
        Ok(any.then_some(line))
    }

    fn at_end(&mut self) -> Result<bool, E> {
        Ok(self.from.fill_buf()?.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::BufReader;
    use std::ops::Range;

    const ALL: Limits = Limits { first: 1, lines: 1_000, bytes: 50_000, line_bytes: 200, count_all: true };

    fn window(content: &[u8], limits: Limits) -> Window {
        read(content, &limits, || Ok::<_, io::Error>(())).unwrap()
    }

    #[test]
    fn lines_are_numbered_like_cat_n() {
        let window = window(b"alpha\n\nomega", ALL);
        assert_eq!(window.text, "     1\talpha\n     2\t\n     3\tomega\n");
        assert_eq!((window.shown, window.total), (3, Some(3)));
    }

    #[test]
    fn window_in_the_middle_keeps_line_numbers() {
        let window = window(b"1\n2\n3\n4\n5\n", Limits { first: 2, lines: 2, ..ALL });
        assert_eq!(window.text, "     2\t2\n     3\t3\n");
        assert_eq!((window.shown, window.total), (2, Some(5)));
    }

    #[test]
    fn total_is_known_only_at_the_end_of_the_file() {
        let limits = Limits { lines: 2, count_all: false, ..ALL };
        assert_eq!(window(b"1\n2\n3\n", limits).total, None);
        assert_eq!(window(b"1\n2\n", limits).total, Some(2));
        assert_eq!(window(b"1\n2", limits).total, Some(2));
        assert_eq!(window(b"1\n", limits).total, Some(1));
    }

    #[test]
    fn window_past_the_end_is_empty_with_total() {
        let window = window(b"1\n2\n", Limits { first: 9, ..ALL });
        assert_eq!((window.shown, window.total), (0, Some(2)));
    }

    #[test]
    fn long_line_is_cut_between_characters_and_marked() {
        let limits = Limits { line_bytes: 4, ..ALL };
        let window = window("aaa\u{e9}bb\r\nok\n".as_bytes(), limits);
        assert_eq!(window.text, "     1\taaa [4 more bytes]\n     2\tok\n");
        assert_eq!((window.cut, window.crlf, window.lossy), (1, 1, false));
    }

    #[test]
    fn carriage_returns_and_byte_order_mark_are_hidden() {
        let window = window(b"\xef\xbb\xbfa\r\nb\r\n", ALL);
        assert_eq!((window.text.as_str(), window.crlf), ("     1\ta\n     2\tb\n", 2));
    }

    #[test]
    fn invalid_utf8_is_replaced_and_reported() {
        let window = window(b"caf\xe9\n", ALL);
        assert_eq!((window.text.as_str(), window.lossy), ("     1\tcaf\u{fffd}\n", true));
    }

    #[test]
    fn first_line_is_returned_even_beyond_the_limit() {
        let window = window(b"aaaaaaaaaa\nb\n", Limits { bytes: 5, ..ALL });
        assert_eq!((window.shown, window.total), (1, Some(2)));
    }

    fn bytes(size: Range<usize>) -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(prop_oneof![4 => any::<u8>(), 2 => Just(b'\n'), 1 => Just(b'\r')], size)
    }

    proptest! {
        #[test]
        fn any_window_equals_a_naive_read(
            content in bytes(0..300),
            first in 1u64..20,
            lines in 1u64..20,
            buffer in 1usize..40,
            count_all: bool,
        ) {
            let limits = Limits { first, lines, bytes: usize::MAX, line_bytes: usize::MAX, count_all };
            let from = BufReader::with_capacity(buffer, content.as_slice());
            let window = read(from, &limits, || Ok::<_, io::Error>(())).unwrap();

            let content = content.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&content);
            let mut all: Vec<&[u8]> = content.split(|b| *b == b'\n').collect();
            if all.last().is_some_and(|last| last.is_empty()) {
                all.pop();
            }
            let ended = |i: usize| i + 1 < all.len() || content.ends_with(b"\n");
            let expected: String = (first as usize - 1..all.len())
                .take(lines as usize)
                .map(|i| {
                    let line = if ended(i) { all[i].strip_suffix(b"\r").unwrap_or(all[i]) } else { all[i] };
                    format!("{:>6}\t{}\n", i + 1, String::from_utf8_lossy(line).replace('\0', "\u{fffd}"))
                })
                .collect();
            prop_assert_eq!(&window.text, &expected);
            if count_all {
                prop_assert_eq!(window.total, Some(all.len() as u64));
            }
        }

        #[test]
        fn window_never_exceeds_its_limits(
            content in proptest::collection::vec(prop_oneof![any::<u8>(), Just(b'\n'), Just(0xc3)], 0..2_000),
            line_bytes in 1usize..50,
            bytes in 100usize..400,
            lines in 1u64..30,
        ) {
            let window = window(&content, Limits { first: 1, lines, bytes, line_bytes, count_all: false });
            prop_assert!(window.shown <= lines);
            prop_assert!(window.text.len() <= bytes);
            prop_assert_eq!(window.text.lines().count() as u64, window.shown);
        }
    }
}
