//! The `read` tool.

use crate::kind::{self, Kind};
use crate::paths::Target;
use crate::store;
use crate::text::{count, size};
use crate::window::{self, Limits, Window};
use pinion_plugin_sdk::prelude::*;
use std::fs::File;
use std::io::{BufReader, Cursor, Read};

/// Default number of lines.
const LINES: u64 = 2_000;
/// Maximum bytes of numbered text in one result.
const BYTES: usize = 50 * 1024;
/// Maximum bytes of a line; the rest is cut.
const LINE_BYTES: usize = 2_000;
/// Size limit in bytes for reading without offset or limit. A larger file is not read to its end for the total.
const TEXT_BYTES: u64 = 1024 * 1024;
/// Size limit of an image in bytes.
const IMAGE_BYTES: u64 = 20 * 1024 * 1024;
/// Size limit in bytes for text in UTF-16, which is read as a whole.
const UTF16_BYTES: u64 = 8 * 1024 * 1024;
const BUFFER: usize = 64 * 1024;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Relative to the workspace, or absolute.
    path: String,
    /// First line, counted from 1.
    #[schemars(range(min = 1))]
    offset: Option<u64>,
    /// Number of lines; default 2000.
    #[schemars(range(min = 1))]
    limit: Option<u64>,
}

pub(crate) fn tool() -> Tool {
    let description = "Reads a text file with line numbers, or an image (PNG, JPEG, GIF, WebP). Returns at most 2000 \
                       lines or 50 KB; continue with offset. A file over 1 MB needs offset or limit.";
    Tool::new("read", description, read)
        .reads()
        .guideline("Read a file before you edit or overwrite it.")
        .guideline("Prefer read, list, find and search to cat, ls, find and grep in a shell.")
}

fn read(arguments: Arguments, call: &Call) -> Result<Output> {
    let target = Target::new(&arguments.path, call)?;
    let bytes = target.regular_file("read")?.len();
    call.check()?;
    store::note_read(&target);
    let failure = |e| target.failure("read", &e);
    let mut file = File::open(&target.path).map_err(failure)?;
    let mut start = Vec::with_capacity(kind::START);
    file.by_ref().take(kind::START as u64).read_to_end(&mut start).map_err(failure)?;
    if let Some(decode) = utf16(&start).filter(|_| bytes <= UTF16_BYTES) {
        file.take(UTF16_BYTES).read_to_end(&mut start).map_err(failure)?;
        let decoded = decode(&start[2..]);
        return text(&target, &arguments, decoded.len() as u64, Cursor::new(decoded), Some("UTF-16"), call);
    }
    match kind::of(&start) {
        Kind::Image(media_type) => image(&target, media_type, bytes, start, file, call),
        Kind::Binary(what) => Err(Error::failed(format!("`{}` is not text: {what}, {}", target.name, size(bytes)))),
        Kind::Text => text(&target, &arguments, bytes, Cursor::new(start).chain(file), None, call),
    }
}

fn image(target: &Target<'_>, media_type: &str, bytes: u64, start: Vec<u8>, file: File, call: &Call) -> Result<Output> {
    let name = target.name;
    if bytes > IMAGE_BYTES {
        let (found, most) = (size(bytes), size(IMAGE_BYTES));
        return Err(Error::failed(format!("`{name}` is an image of {found}, over the limit of {most}; scale it down")));
    }
    call.check()?;
    let mut data = start;
    data.reserve_exact((bytes as usize).saturating_sub(data.len()));
    let rest = IMAGE_BYTES - data.len() as u64;
    file.take(rest).read_to_end(&mut data).map_err(|e| target.failure("read", &e))?;
    let details = json!({ "path": name, "kind": "image", "media_type": media_type, "bytes": data.len() });
    let note = format!("{name} ({media_type}, {})", size(data.len() as u64));
    Ok(Output::image(media_type, data).with_text(note).details(details))
}

/// Returns the decoder of text in UTF-16, which begins with its byte order.
fn utf16(start: &[u8]) -> Option<fn(&[u8]) -> String> {
    fn decoded(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> String {
        let units = bytes.chunks_exact(2).map(|pair| unit([pair[0], pair[1]]));
        char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
    }
    match start {
        // UTF-32 begins in the same way.
        [0xff, 0xfe, 0, 0, ..] => None,
        [0xff, 0xfe, ..] => Some(|bytes| decoded(bytes, u16::from_le_bytes)),
        [0xfe, 0xff, ..] => Some(|bytes| decoded(bytes, u16::from_be_bytes)),
        _ => None,
    }
}

fn text(
    target: &Target<'_>,
    arguments: &Arguments,
    bytes: u64,
    from: impl Read,
    encoding: Option<&'static str>,
    call: &Call,
) -> Result<Output> {
    let name = target.name;
    let large = bytes > TEXT_BYTES;
    if large && arguments.offset.is_none() && arguments.limit.is_none() {
        let text = format!("`{name}` has {} of text; pass offset and limit, or use search", size(bytes));
        return Err(Error::invalid_input(text));
    }
    let limits = Limits {
        first: arguments.offset.unwrap_or(1).max(1),
        lines: arguments.limit.unwrap_or(LINES).max(1),
        bytes: BYTES,
        line_bytes: LINE_BYTES,
        count_all: !large,
    };
    call.check()?;
    let window = window::read(BufReader::with_capacity(BUFFER, from), &limits, || call.check())
        .map_err(|e| e.context(format!("cannot read `{name}`")))?;
    if window.shown == 0 && limits.first > 1 {
        return Err(past_the_end(name, limits.first, &window));
    }
    let (text, details) = (render(name, limits.first, &window, encoding), details(name, bytes, limits.first, &window));
    Ok(Output::text(text).details(details).code(language(name)))
}

/// Returns the ending of a file's name, or a name without one, such as `Makefile`.
fn language(name: &str) -> &str {
    let name = name.rsplit('/').next().unwrap_or_default();
    name.rsplit('.').next().unwrap_or_default()
}

fn past_the_end(name: &str, first: u64, window: &Window) -> Error {
    let lines = count(window.total.unwrap_or_default(), "line");
    Error::invalid_input(format!("offset {first} is past the end of `{name}`, which has {lines}"))
}

fn render(name: &str, first: u64, window: &Window, encoding: Option<&str>) -> String {
    if window.shown == 0 {
        return format!("{name} is empty");
    }
    let last = first + window.shown - 1;
    let total = window.total.map(|total| format!(" of {total}")).unwrap_or_default();
    let next = match window.total {
        Some(total) if total <= last => String::new(),
        Some(total) => format!("[{} more; continue with offset={}]\n", count(total - last, "line"), last + 1),
        None => format!("[more lines follow; continue with offset={}]\n", last + 1),
    };
    format!("{name}: lines {first}-{last}{total}{}\n{}{next}", notes(window, encoding), window.text)
}

/// Describes properties that the numbered lines do not show.
fn notes(window: &Window, encoding: Option<&str>) -> String {
    let encoding = encoding.map(|name| format!("{name}, which edit and write do not change"));
    let crlf = (window.crlf > 0).then_some("CRLF line endings");
    let lossy = window.lossy.then_some("not entirely UTF-8: \u{fffd} replaces invalid bytes");
    let notes: Vec<&str> = encoding.as_deref().into_iter().chain(crlf).chain(lossy).collect();
    if notes.is_empty() { String::new() } else { format!(" ({})", notes.join("; ")) }
}

fn details(name: &str, bytes: u64, first: u64, window: &Window) -> Value {
    let last = first + window.shown - 1;
    json!({
        "path": name,
        "kind": "text",
        "bytes": bytes,
        "first_line": first,
        "last_line": last,
        "total_lines": window.total,
        "truncated": window.cut > 0 || window.total.is_none_or(|total| total > last),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinion_plugin_sdk::testing::{self, Reply};
    use std::fs;
    use std::path::Path;

    fn read(path: &Path, more: Value) -> Result<Reply> {
        let mut arguments = json!({ "path": path });
        arguments.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
        testing::call_tool::<crate::Files>("read", arguments)
    }

    fn file(content: impl AsRef<[u8]>) -> (tempfile::TempDir, std::path::PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file.txt");
        fs::write(&path, content).unwrap();
        (directory, path)
    }

    #[test]
    fn small_file_is_read_completely() {
        let (_directory, path) = file("alpha\nbeta\n");
        let reply = read(&path, json!({})).unwrap();
        assert_eq!(reply.text, format!("{}: lines 1-2 of 2\n     1\talpha\n     2\tbeta\n", path.display()));
        let expected = json!({
            "path": path, "kind": "text", "bytes": 11, "first_line": 1, "last_line": 2, "total_lines": 2,
            "truncated": false,
        });
        assert_eq!(reply.details, expected);
    }

    #[test]
    fn text_in_utf_16_is_decoded() {
        let encoded = |text: &str, mark: [u8; 2], bytes: fn(u16) -> [u8; 2]| {
            [mark.to_vec(), text.encode_utf16().flat_map(bytes).collect()].concat()
        };
        let long = "ä😀\r\n".repeat(5_000);
        for (mark, bytes) in [([0xff, 0xfe], u16::to_le_bytes as fn(u16) -> [u8; 2]), ([0xfe, 0xff], u16::to_be_bytes)]
        {
            let (_directory, path) = file(encoded("eins\r\nzwei ä😀\n", mark, bytes));
            let reply = read(&path, json!({})).unwrap();
            assert!(reply.text.contains("     1\teins\n     2\tzwei ä😀\n"), "{}", reply.text);
            assert!(reply.text.contains("(UTF-16, which edit and write do not change; CRLF"), "{}", reply.text);
            let (_directory, path) = file(encoded(&long, mark, bytes));
            assert!(read(&path, json!({ "offset": 4_999 })).unwrap().text.contains("  5000\tä😀\n"));
        }
        let (_directory, path) = file(b"\xff\xfe\0\0a\0\0\0");
        assert!(read(&path, json!({})).unwrap_err().to_string().contains("is not text"));
        let (_directory, path) = file(b"\xff\xfea");
        assert!(read(&path, json!({})).unwrap().text.contains("is empty"));
    }

    #[test]
    fn partial_read_says_how_to_continue() {
        let (_directory, path) = file("1\n2\n3\n4\n5\n");
        let reply = read(&path, json!({ "offset": 2, "limit": 2 })).unwrap();
        assert!(
            reply.text.contains(": lines 2-3 of 5\n     2\t2\n     3\t3\n[2 lines more; continue with offset=4]\n")
        );
        assert_eq!(reply.details["truncated"], true);
    }

    #[test]
    fn one_read_returns_at_most_2000_lines_or_50_kilobytes() {
        let (_directory, path) = file("x\n".repeat(3_000));
        let reply = read(&path, json!({})).unwrap();
        assert!(reply.text.ends_with("  2000\tx\n[1000 lines more; continue with offset=2001]\n"));
        let (_directory, path) = file(format!("{}\n", "x".repeat(999)).repeat(100));
        let reply = read(&path, json!({})).unwrap();
        assert!(reply.text.len() < BYTES + 200);
        assert!(reply.text.ends_with("[50 lines more; continue with offset=51]\n"), "{}", &reply.text[BYTES - 500..]);
    }

    #[test]
    fn large_file_needs_offset_or_limit() {
        let (_directory, path) = file("0123456789\n".repeat(200_000));
        let Err(Error::InvalidInput(text)) = read(&path, json!({})) else { panic!() };
        assert!(text.ends_with("has 2.0 MB of text; pass offset and limit, or use search"), "{text}");
        let reply = read(&path, json!({ "offset": 150_000, "limit": 1 })).unwrap();
        let expected = ": lines 150000-150000\n150000\t0123456789\n[more lines follow; continue with offset=150001]\n";
        assert!(reply.text.ends_with(expected), "{}", reply.text);
    }

    #[test]
    fn offset_past_the_end_reports_the_line_count() {
        let (_directory, path) = file("1\n2\n");
        let Err(Error::InvalidInput(text)) = read(&path, json!({ "offset": 3 })) else { panic!() };
        assert!(text.starts_with("offset 3 is past the end of") && text.ends_with("which has 2 lines"), "{text}");
    }

    #[test]
    fn empty_file_is_reported() {
        let (_directory, path) = file("");
        assert_eq!(read(&path, json!({})).unwrap().text, format!("{} is empty", path.display()));
    }

    #[test]
    fn crlf_and_invalid_utf8_are_reported() {
        let (_directory, path) = file(b"caf\xe9\r\n");
        let reply = read(&path, json!({})).unwrap();
        let expected =
            "(CRLF line endings; not entirely UTF-8: \u{fffd} replaces invalid bytes)\n     1\tcaf\u{fffd}\n";
        assert!(reply.text.ends_with(expected), "{}", reply.text);
    }

    #[test]
    fn image_is_detected_by_content() {
        let png = [b"\x89PNG\r\n\x1a\n".as_slice(), &[7; 20_000]].concat();
        let (_directory, path) = file(&png);
        let reply = read(&path, json!({})).unwrap();
        assert_eq!((reply.images[0].media_type.as_str(), &reply.images[0].data), ("image/png", &png));
        assert_eq!(reply.details["kind"], "image");
    }

    #[test]
    fn oversized_image_is_rejected() {
        let (_directory, path) = file(b"GIF89a");
        fs::OpenOptions::new().append(true).open(&path).unwrap().set_len(IMAGE_BYTES + 1).unwrap();
        let Err(Error::Failed { message, .. }) = read(&path, json!({})) else { panic!() };
        assert!(message.contains("is an image of 20.0 MB, over the limit of 20.0 MB"), "{message}");
    }

    #[test]
    fn binary_file_is_rejected_with_type_and_size() {
        let (_directory, path) = file(b"\x7fELF\x02\x01");
        let Err(Error::Failed { message, .. }) = read(&path, json!({})) else { panic!() };
        assert!(message.ends_with("is not text: an ELF program or library, 6 bytes"), "{message}");
    }

    #[test]
    fn directory_is_rejected_in_favour_of_list() {
        let directory = tempfile::tempdir().unwrap();
        let Err(Error::InvalidInput(text)) = read(directory.path(), json!({})) else { panic!() };
        assert!(text.ends_with("is a directory; use list to see its content"), "{text}");
    }

    #[cfg(unix)]
    #[test]
    fn device_is_rejected_before_it_is_opened() {
        let Err(Error::InvalidInput(text)) = read(Path::new("/dev/zero"), json!({})) else { panic!() };
        assert!(text.contains("neither a file nor a directory"), "{text}");
    }

    #[test]
    fn cancelled_call_stops_at_every_step() {
        let (_directory, path) = file("x\n".repeat(100_000));
        for questions in 0..4 {
            testing::cancel_after(questions);
            assert_eq!(read(&path, json!({ "offset": 90_000 })).unwrap_err(), Error::Cancelled, "{questions}");
        }
    }
}
