//! The file of earlier messages, which conversations in lines use, too: a heading, then a message in each line, with backslashes
//! before line ends and backslashes.
//!
//! It is only a convenience, so errors are ignored.

use pinion_app::files::private::{create_directory, open_file, open_regular, replace};
use pinion_app::workspace_base::Base;
use std::fs;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;

/// Bytes at the end of the file that are read.
const READ: u64 = 8 << 20;
/// Maximum bytes of the file before it is shortened, and the messages that it keeps then.
const MAX_BYTES: u64 = 16 << 20;
const KEPT: usize = 1_000;
/// Bytes of the longest message that is kept.
const MAX_MESSAGE: usize = 64 << 10;
const HEADING: &str = "#V2\n";

/// Returns the latest messages, oldest first. Shortens a file that has grown large.
pub(super) fn read(base: &Base) -> Vec<String> {
    messages(&base.paths.history_file())
}

fn messages(file: &Path) -> Vec<String> {
    let lines = latest(file).unwrap_or_default();
    if fs::metadata(file).is_ok_and(|found| found.len() > MAX_BYTES) {
        let kept = &lines[lines.len().saturating_sub(KEPT)..];
        let text: String = kept.iter().map(|line| format!("{line}\n")).collect();
        let _ = replace(file, format!("{HEADING}{text}").as_bytes());
    }
    lines.iter().map(|line| unescape(line)).collect()
}

/// Returns the lines at the end of a file that are not too long.
fn latest(file: &Path) -> io::Result<Vec<String>> {
    let mut file = open_file(file)?;
    let start = file.metadata()?.len().saturating_sub(READ);
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(READ).read_to_end(&mut bytes)?;
    // The first line may have begun before.
    let skipped = if start == 0 { 0 } else { bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len()) };
    let text = String::from_utf8_lossy(&bytes[skipped..]);
    let lines = text.lines().filter(|line| !line.is_empty() && *line != HEADING.trim_end());
    Ok(lines.filter(|line| line.len() <= MAX_MESSAGE).map(str::to_owned).collect())
}

/// Adds a message, unless it is too long to be written again.
pub(super) fn remember(base: &Base, message: &str) {
    let file = base.paths.history_file();
    let line = base.secrets.clean(message).replace('\\', "\\\\").replace('\n', "\\n");
    if line.len() > MAX_MESSAGE {
        return;
    }
    let heading = if file.exists() { "" } else { HEADING };
    let _ = file.parent().map_or(Ok(()), create_directory);
    let opened = open_regular(&file, fs::OpenOptions::new().append(true).create(true));
    let _ = opened.and_then(|mut file| file.write_all(format!("{heading}{line}\n").as_bytes()));
}

fn unescape(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    let mut characters = line.chars();
    while let Some(c) = characters.next() {
        match (c, c == '\\') {
            (_, true) => match characters.next() {
                Some('n') => text.push('\n'),
                Some(other) => text.push(other),
                None => {}
            },
            (c, false) => text.push(c),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn pipes_in_place_of_files_do_not_block() {
        let directory = tempfile::tempdir().unwrap();
        let pipe = directory.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        assert!(latest(&pipe).is_err());
    }

    #[test]
    fn lines_of_the_history_are_those_of_the_line_editor() {
        assert_eq!(unescape(r"a\nb\\n"), "a\nb\\n");
    }

    #[test]
    fn latest_messages_of_a_long_history_are_read() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("history");
        let paste = format!("{}\n", "x".repeat(1 << 20));
        let mut text = format!("{HEADING}first\n");
        (0..20).for_each(|n| text.push_str(&format!("{paste}message {n}\n")));
        fs::write(&file, &text).unwrap();
        let read = messages(&file);
        assert_eq!(read.last().map(String::as_str), Some("message 19"));
        assert!(read.len() >= 7 && read.iter().all(|message| message.starts_with("message")), "{read:?}");
        assert!(fs::metadata(&file).unwrap().len() < 1 << 10);
        assert_eq!(messages(&file), read);
    }
}
