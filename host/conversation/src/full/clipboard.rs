//! The clipboard of the desktop, which only its programs can read, and which some terminals cannot write.

use crate::full::ui_inbox::UiInbox;
use pinion_agent::content::Image;
use pinion_app::failure::{Failure, Result};
use pinion_app::files::private::{create_directory, replace};
use pinion_app::workspace_base::Base;
use pinion_pictures::MAX_PICTURE_BYTES;
use pinion_tui::Input;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;

/// Maximum bytes of a picture.
const MAX_BYTES: u64 = MAX_PICTURE_BYTES as u64;
/// Time limit for a program.
const LIMIT: Duration = Duration::from_secs(5);
/// Maximum age of a picture. The messages that name it have its content.
const MAX_AGE: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// A program, its arguments, and the variable that says that it can be used.
type ClipboardProgram = (&'static str, &'static [&'static str], Option<&'static str>);

/// Programs that print the picture in the clipboard as PNG.
const READERS: [ClipboardProgram; 3] = [
    ("wl-paste", &["--no-newline", "--type", "image/png"], Some("WAYLAND_DISPLAY")),
    ("xclip", &["-selection", "clipboard", "-target", "image/png", "-out"], Some("DISPLAY")),
    ("pngpaste", &["-"], None),
];
/// Programs that put their input into the clipboard.
const WRITERS: [ClipboardProgram; 3] = [
    ("wl-copy", &[], Some("WAYLAND_DISPLAY")),
    ("xclip", &["-selection", "clipboard", "-in"], Some("DISPLAY")),
    ("pbcopy", &[], None),
];

/// Puts a text into the clipboard of the desktop, in the background, in addition to OSC 52: some terminals do not know
/// that sequence, or ignore it by default. Over SSH, the desktop is another one.
pub(super) fn copy(text: String) {
    if ["SSH_CONNECTION", "SSH_TTY"].iter().any(|name| std::env::var_os(name).is_some()) {
        return;
    }
    tokio::spawn(async move {
        for (program, arguments, _) in usable(&WRITERS) {
            if tokio::time::timeout(LIMIT, feed(program, arguments, &text)).await.unwrap_or(false) {
                break;
            }
        }
    });
}

fn usable(programs: &[ClipboardProgram]) -> impl Iterator<Item = ClipboardProgram> {
    programs.iter().copied().filter(|(_, _, variable)| variable.is_none_or(|name| std::env::var_os(name).is_some()))
}

/// Returns whether a program took a text. One that serves the clipboard from then on leaves another process behind.
async fn feed(program: &str, arguments: &[&str], text: &str) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    let Ok(mut child) = command.spawn() else { return false };
    let Some(mut input) = child.stdin.take() else { return false };
    let is_written = input.write_all(text.as_bytes()).await.is_ok();
    drop(input);
    child.wait().await.is_ok_and(|status| status.success()) && is_written
}

/// Pastes the path of the picture in the clipboard, in the background. Reports a failure.
pub(super) fn paste(said: Arc<UiInbox>, base: Base) {
    tokio::spawn(async move {
        match picture(&base).await {
            Ok(file) => said.push_input(Input::Paste(file.display().to_string())),
            Err(failure) => said.failure(&failure),
        }
    });
}

/// Keeps the picture in the clipboard in a file and returns its path.
///
/// # Errors
/// No program can read the clipboard, or there is no picture in it.
async fn picture(base: &Base) -> Result<PathBuf> {
    for (program, arguments, _) in usable(&READERS) {
        let Ok(Some(data)) = tokio::time::timeout(LIMIT, output(program, arguments)).await else { continue };
        let image = Image { media_type: "image/png".to_owned(), data };
        let unusable = || Failure::failed("cannot use the picture in the clipboard");
        image.check_format().map_err(|problem| unusable().because(problem))?;
        if image.data.len() > MAX_PICTURE_BYTES {
            return Err(unusable().because(format!("it has more than {MAX_BYTES} bytes")));
        }
        let directory = base.paths.data.join("pictures");
        let name = blake3::hash(&image.data).to_hex();
        let file = directory.join(format!("{}.png", &name.as_str()[..16]));
        remove_older(&directory, SystemTime::now() - MAX_AGE);
        let kept = create_directory(&directory).and_then(|()| replace(&file, &image.data));
        kept.map_err(|error| Failure::failed(format!("could not keep `{}`", file.display())).because(error))?;
        return Ok(file);
    }
    Err(Failure::failed("no picture in the clipboard")
        .hint("this needs `wl-paste`, `xclip` or `pngpaste`; over SSH, copy the file and name it with `@`"))
}

/// Removes the files of a directory that are older. Files that cannot be removed only take space.
fn remove_older(directory: &Path, than: SystemTime) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok) {
        if entry.metadata().and_then(|found| found.modified()).is_ok_and(|modified| modified < than) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Returns a program's output; `None` if the output is empty, or the program is missing or fails.
async fn output(program: &str, arguments: &[&str]) -> Option<Vec<u8>> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
    let mut child = command.spawn().ok()?;
    let mut data = Vec::new();
    child.stdout.take()?.take(MAX_BYTES + 1).read_to_end(&mut data).await.ok()?;
    let is_done = child.wait().await.is_ok_and(|status| status.success());
    (is_done && !data.is_empty()).then_some(data)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[tokio::test]
    async fn program_gets_the_copied_text() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("copied");
        let script = format!("cat > '{}'", file.display());
        let text = "line\n".repeat(100_000);
        assert!(feed("sh", &["-c", &script], &text).await);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
        assert!(!feed("sh", &["-c", "cat > /dev/null; exit 1"], &text).await);
        assert!(!feed("no-such-program", &[], &text).await);
    }

    #[test]
    fn old_pictures_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        let now = SystemTime::now();
        for (name, age) in [("old", 31), ("new", 29)] {
            let file = File::create(directory.path().join(name)).unwrap();
            file.set_modified(now - Duration::from_secs(age * 24 * 60 * 60)).unwrap();
        }
        remove_older(directory.path(), now - MAX_AGE);
        let left: Vec<_> = directory.path().read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["new"]);
    }
}
