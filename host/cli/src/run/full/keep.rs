//! Files of the editor: the history of messages, and the message that is not sent yet.

use crate::base::Base;
use crate::files::private::{create_directory, open_file, replace};
use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

/// Maximum bytes of a history or a draft that are read.
const MAX_BYTES: u64 = 8 * 1024 * 1024;

/// Returns earlier messages, oldest first. The file is that of the line editor: a heading, then a message for each line,
/// with backslashes before line ends and backslashes.
pub(super) fn history(base: &Base) -> Vec<String> {
    let lines = read(&base.paths.history_file());
    lines.lines().filter(|line| !line.starts_with("#V2")).map(unescape).collect()
}

/// Adds a message to the history. Ignores errors, because the history is only a convenience.
pub(super) fn remember(base: &Base, message: &str) {
    let file = base.paths.history_file();
    let line = base.secrets.clean(message).replace('\\', "\\\\").replace('\n', "\\n");
    let heading = if file.exists() { "" } else { "#V2\n" };
    let _ = file.parent().map_or(Ok(()), create_directory);
    let mut options = fs::OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        // Opening a pipe would wait for its reader.
        options.mode(0o600).custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    }
    let _ = options.open(file).and_then(|mut file| file.write_all(format!("{heading}{line}\n").as_bytes()));
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

/// Returns the message that was not sent when the last conversation in this workspace ended or crashed.
pub(super) fn draft(base: &Base) -> String {
    read(&draft_file(base))
}

/// Keeps a message that is not sent yet; an empty one removes it. Ignores errors, because the draft is only a
/// convenience.
pub(super) fn save_draft(base: &Base, text: &str) {
    let file = draft_file(base);
    if text.trim().is_empty() {
        let _ = fs::remove_file(file);
        return;
    }
    let text = base.secrets.clean(text);
    let _ = file.parent().map_or(Ok(()), create_directory).and_then(|()| replace(&file, text.as_bytes()));
}

fn draft_file(base: &Base) -> PathBuf {
    let name = blake3::hash(base.workspace.as_os_str().as_encoded_bytes()).to_hex();
    base.paths.drafts().join(&name.as_str()[..32])
}

/// Reads a file. One that is missing, or no regular file, is empty.
fn read(file: &Path) -> String {
    let mut bytes = Vec::new();
    let _ = open_file(file).and_then(|file| file.take(MAX_BYTES).read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
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
        assert_eq!(read(&pipe), "");
    }

    #[test]
    fn lines_of_the_history_are_those_of_the_line_editor() {
        assert_eq!(unescape(r"a\nb\\n"), "a\nb\\n");
    }
}
