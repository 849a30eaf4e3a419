//! Reports of terminals: sequences that no key sends.

/// Kinds of reports with text, by the bytes that they have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextKind {
    /// A colour (OSC 4, 5, 10 to 19).
    Colour,
    /// Anything else.
    Other,
}

impl TextKind {
    /// Returns whether a byte can be in the text. Fewer bytes mean that fewer keys behind an unfinished report are lost.
    pub(super) fn allows(self, byte: u8) -> bool {
        match self {
            Self::Colour => byte.is_ascii_hexdigit() || b"rgb:/;#?".contains(&byte),
            Self::Other => matches!(byte, 0x20..=0x7e | 0x80..),
        }
    }
}

/// The beginning of a report with text.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ReportHeader {
    /// It may become one.
    Unfinished,
    Of(TextKind),
    /// It is something else.
    None,
}

/// Judges the beginning of a report with text, from its introducer on: the number of an OSC up to its semicolon or the letter of a
/// title, a DCS up to its final byte, or the letter of kitty's graphics.
pub(super) fn header(bytes: &[u8]) -> ReportHeader {
    match bytes {
        [b']', b'l' | b'L'] | [b'_', b'G'] => ReportHeader::Of(TextKind::Other),
        [b']', number @ .., b';'] if !number.is_empty() => ReportHeader::Of(match number {
            [b'4' | b'5'] | [b'1', b'0'..=b'9'] => TextKind::Colour,
            _ => TextKind::Other,
        }),
        [b']', number @ ..] if number.len() <= 4 && number.iter().all(u8::is_ascii_digit) => ReportHeader::Unfinished,
        [b'P', prefix @ .., 0x40..=0x7e] if !prefix.is_empty() => ReportHeader::Of(TextKind::Other),
        [b'P', prefix @ ..] if prefix.len() <= 16 && prefix.iter().all(|byte| matches!(byte, 0x20..=0x3f)) => {
            ReportHeader::Unfinished
        }
        [b'_'] => ReportHeader::Unfinished,
        _ => ReportHeader::None,
    }
}

/// Returns whether a control sequence with these bytes between `ESC [` and its last one is a report: of attributes, modes, the
/// state of the terminal, its keyboard, its window, its graphics, the cursor's position, or the focus.
fn is_report(body: &[u8], last: u8) -> bool {
    matches!(
        (body.first(), last),
        (Some(b'?'), b'c' | b'n' | b'R' | b'S' | b'u' | b'y')
            | (Some(b'>' | b'='), b'c' | b'm' | b'u')
            | (Some(b'0'..=b'9'), b'n' | b'R' | b't' | b'x' | b'y')
            | (None, b'I' | b'O')
    )
}

/// Returns the length of the complete report at the beginning of bytes that begin with ESC.
pub(super) fn report_length(bytes: &[u8]) -> Option<usize> {
    let after = bytes.get(1..)?;
    if let Some(control) = after.strip_prefix(b"[") {
        let body = control.iter().take_while(|byte| matches!(byte, 0x20..=0x3f)).count();
        let last = control.get(body)?;
        return is_report(&control[..body], *last).then_some(2 + body + 1);
    }
    let mut kind = None;
    for at in 2..bytes.len() {
        match (kind, &bytes[at..]) {
            (Some(_), [0x07, ..]) => return Some(at + 1),
            (Some(_), [0x1b, b'\\', ..]) => return Some(at + 2),
            (None, _) => match header(&bytes[1..=at]) {
                ReportHeader::Unfinished => {}
                ReportHeader::Of(found) => kind = Some(found),
                ReportHeader::None => return None,
            },
            (Some(kind), [byte, ..]) if TextKind::allows(kind, *byte) => {}
            _ => return None,
        }
    }
    None
}

/// Returns a pasted text without the reports that arrived among it, and these.
pub(super) fn without_reports(pasted: &[u8]) -> (Vec<u8>, Vec<&[u8]>) {
    let (mut text, mut reports, mut rest) = (Vec::with_capacity(pasted.len()), Vec::new(), pasted);
    while let Some(at) = rest.iter().position(|byte| *byte == 0x1b) {
        text.extend_from_slice(&rest[..at]);
        rest = &rest[at..];
        let length = report_length(rest);
        match length {
            Some(length) => reports.push(&rest[..length]),
            None => text.push(0x1b),
        }
        rest = &rest[length.unwrap_or(1)..];
    }
    text.extend_from_slice(rest);
    (text, reports)
}

/// Returns the length of the rest of a report at the beginning of a text, with only the introducer missing. A rest that
/// people could write counts only if `is_distinct` is false.
pub(super) fn rest_length(text: &str, is_distinct: bool) -> Option<usize> {
    if let Some(length) = colour_length(text).or_else(|| version_length(text)) {
        return Some(length);
    }
    let length = [&b"[?"[..], b"[>", b"["].into_iter().find_map(|introducer| {
        let whole = [&[0x1b], introducer, text.as_bytes()].concat();
        report_length(&whole)?.checked_sub(1 + introducer.len())
    })?;
    let rest = &text[..length];
    let is_plain = !rest.ends_with("$y") && !rest.starts_with("997;");
    (rest.contains(';') && !(is_distinct && is_plain)).then_some(length)
}

/// Returns the length of `11;rgb:ffff/ffff/ffff` at the beginning of a text.
fn colour_length(text: &str) -> Option<usize> {
    let number = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let mut at = 0;
    while let digits @ 1..=4 = number(&text[at..])
        && text[at + digits..].starts_with(';')
    {
        at += digits + 1;
    }
    let form = ["rgb:", "rgba:"].into_iter().find(|form| at > 0 && text[at..].starts_with(form))?;
    at += form.len();
    for group in 0..form.len() - 1 {
        if group > 0 {
            at += usize::from(text[at..].strip_prefix('/').map(|_| true)?);
        }
        let digits = text[at..].bytes().take(4).take_while(u8::is_ascii_hexdigit).count();
        at += Some(digits).filter(|digits| *digits > 0)?;
    }
    Some(at)
}

/// Returns the length of `>|tmux 3.4` at the beginning of a text.
fn version_length(text: &str) -> Option<usize> {
    let rest = text.strip_prefix(">|")?;
    let count = |text: &str, is_part: fn(&u8) -> bool| text.bytes().take_while(is_part).count();
    let name = Some(count(rest, u8::is_ascii_alphabetic)).filter(|letters| *letters > 0)?;
    let space = usize::from(rest[name..].starts_with([' ', '(']));
    let version = count(&rest[name + space..], |byte| byte.is_ascii_digit() || b".-".contains(byte));
    let end = name + space + Some(version).filter(|digits| *digits > 0)?;
    Some(2 + end + usize::from(rest[end..].starts_with(')')))
}
