//! The tool `read`.

use crate::kind::{self, Kind};
use crate::paths::Target;
use crate::text::{count, size};
use crate::window::{self, Limits, Window};
use pinion_plugin_sdk::prelude::*;
use std::fs::File;
use std::io::{BufReader, Cursor, Read};

/// Lines that are read where nothing is said.
const LINES: u64 = 2_000;
/// Bytes of numbered text in one result.
const BYTES: usize = 50 * 1024;
/// Longer lines are cut.
const LINE_BYTES: usize = 2_000;
/// Larger files are read only by offset and limit, and not to their end for the sake of the total.
const TEXT_BYTES: u64 = 1024 * 1024;
/// Larger images are refused.
const IMAGE_BYTES: u64 = 20 * 1024 * 1024;
const BUFFER: usize = 64 * 1024;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Relative to the workspace, or absolute.
    path: String,
    /// First line, counted from 1.
    #[schemars(range(min = 1))]
    offset: Option<u64>,
    /// Lines; 2000 by default.
    #[schemars(range(min = 1))]
    limit: Option<u64>,
}

pub(crate) fn tool() -> Tool {
    let description = "Reads a text file, with line numbers, or an image (PNG, JPEG, GIF, WebP). At most 2000 lines or \
                       50 KB at once; go on with offset. A file over 1 MB needs offset or limit.";
    Tool::new("read", description, read)
        .reads()
        .guideline("Read a file before you edit or overwrite it.")
        .guideline("Use read, list, find and search rather than cat, ls, find and grep in a shell.")
}

fn read(arguments: Arguments, call: &Call) -> Result<Output> {
    let target = Target::new(&arguments.path, call)?;
    let bytes = target.regular_file("read")?.len();
    call.check()?;
    let failure = |e| target.failure("read", &e);
    let mut file = File::open(&target.path).map_err(failure)?;
    let mut start = Vec::with_capacity(kind::START);
    file.by_ref().take(kind::START as u64).read_to_end(&mut start).map_err(failure)?;
    match kind::of(&start) {
        Kind::Image(media_type) => image(&target, media_type, bytes, start, file, call),
        Kind::Binary(what) => Err(Error::failed(format!("`{}` is not text: {what}, {}", target.name, size(bytes)))),
        Kind::Text => text(&target, &arguments, bytes, Cursor::new(start).chain(file), call),
    }
}

fn image(target: &Target<'_>, media_type: &str, bytes: u64, start: Vec<u8>, file: File, call: &Call) -> Result<Output> {
    let name = target.name;
    if bytes > IMAGE_BYTES {
        let (found, most) = (size(bytes), size(IMAGE_BYTES));
        return Err(Error::failed(format!("`{name}` is an image of {found}, and {most} is the most; scale it down")));
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

fn text(target: &Target<'_>, arguments: &Arguments, bytes: u64, from: impl Read, call: &Call) -> Result<Output> {
    let name = target.name;
    let large = bytes > TEXT_BYTES;
    if large && arguments.offset.is_none() && arguments.limit.is_none() {
        let text = format!("`{name}` is {} of text; give offset and limit, or find lines with search", size(bytes));
        return Err(Error::invalid_arguments(text));
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
    let (text, details) = (render(name, limits.first, &window), details(name, bytes, limits.first, &window));
    Ok(Output::text(text).details(details))
}

fn past_the_end(name: &str, first: u64, window: &Window) -> Error {
    let lines = count(window.total.unwrap_or_default(), "line");
    Error::invalid_arguments(format!("offset {first} is past the end of `{name}`, which has {lines}"))
}

fn render(name: &str, first: u64, window: &Window) -> String {
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
    format!("{name}: lines {first}-{last}{total}{}\n{}{next}", notes(window), window.text)
}

/// What the lines do not show of themselves.
fn notes(window: &Window) -> String {
    let crlf = (window.crlf > 0).then_some("CRLF line endings");
    let lossy = window.lossy.then_some("not all of it is UTF-8: \u{fffd} stands for other bytes");
    let notes: Vec<&str> = crlf.into_iter().chain(lossy).collect();
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
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file.txt");
        fs::write(&path, content).unwrap();
        (folder, path)
    }

    #[test]
    fn a_small_file_is_read_whole() {
        let (_folder, path) = file("alpha\nbeta\n");
        let reply = read(&path, json!({})).unwrap();
        assert_eq!(reply.text, format!("{}: lines 1-2 of 2\n     1\talpha\n     2\tbeta\n", path.display()));
        let expected = json!({
            "path": path, "kind": "text", "bytes": 11, "first_line": 1, "last_line": 2, "total_lines": 2,
            "truncated": false,
        });
        assert_eq!(reply.details, expected);
    }

    #[test]
    fn a_window_tells_how_to_go_on() {
        let (_folder, path) = file("1\n2\n3\n4\n5\n");
        let reply = read(&path, json!({ "offset": 2, "limit": 2 })).unwrap();
        assert!(
            reply.text.contains(": lines 2-3 of 5\n     2\t2\n     3\t3\n[2 lines more; continue with offset=4]\n")
        );
        assert_eq!(reply.details["truncated"], true);
    }

    #[test]
    fn two_thousand_lines_or_fifty_kilobytes_are_read_at_once() {
        let (_folder, path) = file("x\n".repeat(3_000));
        let reply = read(&path, json!({})).unwrap();
        assert!(reply.text.ends_with("  2000\tx\n[1000 lines more; continue with offset=2001]\n"));
        let (_folder, path) = file(format!("{}\n", "x".repeat(999)).repeat(100));
        let reply = read(&path, json!({})).unwrap();
        assert!(reply.text.len() < BYTES + 200);
        assert!(reply.text.ends_with("[50 lines more; continue with offset=51]\n"), "{}", &reply.text[BYTES - 500..]);
    }

    #[test]
    fn a_large_file_is_read_by_offset_and_limit_only() {
        let (_folder, path) = file("0123456789\n".repeat(200_000));
        let Err(Error::InvalidArguments(text)) = read(&path, json!({})) else { panic!() };
        assert!(text.ends_with("is 2.0 MB of text; give offset and limit, or find lines with search"), "{text}");
        let reply = read(&path, json!({ "offset": 150_000, "limit": 1 })).unwrap();
        let expected = ": lines 150000-150000\n150000\t0123456789\n[more lines follow; continue with offset=150001]\n";
        assert!(reply.text.ends_with(expected), "{}", reply.text);
    }

    #[test]
    fn an_offset_past_the_end_tells_how_many_lines_there_are() {
        let (_folder, path) = file("1\n2\n");
        let Err(Error::InvalidArguments(text)) = read(&path, json!({ "offset": 3 })) else { panic!() };
        assert!(text.starts_with("offset 3 is past the end of") && text.ends_with("which has 2 lines"), "{text}");
    }

    #[test]
    fn an_empty_file_is_said_to_be_empty() {
        let (_folder, path) = file("");
        assert_eq!(read(&path, json!({})).unwrap().text, format!("{} is empty", path.display()));
    }

    #[test]
    fn line_endings_and_bytes_that_are_not_utf8_are_told() {
        let (_folder, path) = file(b"caf\xe9\r\n");
        let reply = read(&path, json!({})).unwrap();
        let expected =
            "(CRLF line endings; not all of it is UTF-8: \u{fffd} stands for other bytes)\n     1\tcaf\u{fffd}\n";
        assert!(reply.text.ends_with(expected), "{}", reply.text);
    }

    #[test]
    fn an_image_is_known_by_its_content_and_given_as_one() {
        let png = [b"\x89PNG\r\n\x1a\n".as_slice(), &[7; 20_000]].concat();
        let (_folder, path) = file(&png);
        let reply = read(&path, json!({})).unwrap();
        assert_eq!((reply.images[0].media_type.as_str(), &reply.images[0].data), ("image/png", &png));
        assert_eq!(reply.details["kind"], "image");
    }

    #[test]
    fn an_image_that_is_too_large_is_refused() {
        let (_folder, path) = file(b"GIF89a");
        fs::OpenOptions::new().append(true).open(&path).unwrap().set_len(IMAGE_BYTES + 1).unwrap();
        let Err(Error::Failed { message, .. }) = read(&path, json!({})) else { panic!() };
        assert!(message.contains("is an image of 20.0 MB, and 20.0 MB is the most"), "{message}");
    }

    #[test]
    fn a_binary_file_is_refused_with_its_kind_and_size() {
        let (_folder, path) = file(b"\x7fELF\x02\x01");
        let Err(Error::Failed { message, .. }) = read(&path, json!({})) else { panic!() };
        assert!(message.ends_with("is not text: an ELF program or library, 6 bytes"), "{message}");
    }

    #[test]
    fn a_folder_is_for_list() {
        let folder = tempfile::tempdir().unwrap();
        let Err(Error::InvalidArguments(text)) = read(folder.path(), json!({})) else { panic!() };
        assert!(text.ends_with("is a folder; use list to see what is in it"), "{text}");
    }

    #[cfg(unix)]
    #[test]
    fn a_device_is_refused_before_it_is_opened() {
        let Err(Error::InvalidArguments(text)) = read(Path::new("/dev/zero"), json!({})) else { panic!() };
        assert!(text.contains("neither a file nor a folder"), "{text}");
    }

    #[test]
    fn a_cancelled_call_stops_at_any_of_its_steps() {
        let (_folder, path) = file("x\n".repeat(100_000));
        for questions in 0..4 {
            testing::cancel_after(questions);
            assert_eq!(read(&path, json!({ "offset": 90_000 })).unwrap_err(), Error::Cancelled, "{questions}");
        }
    }
}
