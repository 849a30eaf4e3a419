//! Pictures from the clipboard, which only programs of the desktop can read.

use crate::base::Base;
use crate::failure::{Failure, Result};
use crate::files::private::{create_directory, replace};
use crate::run::full::said::Said;
use pinion_agent::content::Image;
use pinion_tui::Input;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::io::AsyncReadExt as _;
use tokio::process::Command;

/// Maximum bytes of a picture.
const MAX_BYTES: u64 = 8 * 1024 * 1024;
/// Time limit for a program.
const LIMIT: Duration = Duration::from_secs(5);
/// Age from which a picture is not kept. The messages that name it have its content.
const MAX_AGE: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Programs that print the picture in the clipboard as PNG, with the variable that says that they can.
const PROGRAMS: [(&str, &[&str], Option<&str>); 3] = [
    ("wl-paste", &["--no-newline", "--type", "image/png"], Some("WAYLAND_DISPLAY")),
    ("xclip", &["-selection", "clipboard", "-target", "image/png", "-out"], Some("DISPLAY")),
    ("pngpaste", &["-"], None),
];

/// Pastes the path of the picture in the clipboard, in the background. Reports a failure.
pub(super) fn paste(said: Arc<Said>, base: Base) {
    tokio::spawn(async move {
        match picture(&base).await {
            Ok(file) => said.put(Input::Paste(file.display().to_string())),
            Err(failure) => said.failure(&failure),
        }
    });
}

/// Keeps the picture in the clipboard in a file and returns its path.
///
/// # Errors
/// No program can read the clipboard, or there is no picture in it.
async fn picture(base: &Base) -> Result<PathBuf> {
    for (program, arguments, variable) in PROGRAMS {
        if variable.is_some_and(|name| std::env::var_os(name).is_none()) {
            continue;
        }
        let Ok(Some(data)) = tokio::time::timeout(LIMIT, output(program, arguments)).await else { continue };
        let image = Image { media_type: "image/png".to_owned(), data };
        image.check().map_err(|problem| Failure::failed("cannot use the picture in the clipboard").because(problem))?;
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

/// Removes the files of a directory that are older. Whatever cannot be removed takes only space.
fn remove_older(directory: &Path, than: SystemTime) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok) {
        if entry.metadata().and_then(|found| found.modified()).is_ok_and(|modified| modified < than) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Returns what a program prints; `None` if there is none, or it fails.
async fn output(program: &str, arguments: &[&str]) -> Option<Vec<u8>> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
    let mut child = command.spawn().ok()?;
    let mut data = Vec::new();
    child.stdout.take()?.take(MAX_BYTES).read_to_end(&mut data).await.ok()?;
    let is_done = child.wait().await.is_ok_and(|status| status.success());
    (is_done && !data.is_empty()).then_some(data)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

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
