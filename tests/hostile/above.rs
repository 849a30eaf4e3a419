//! Directories above a project, where other users may have left instructions.

use crate::hostile::repository::{SECRET, Vendor, in_workspace, live, outside};
use pinion_tests::Pinion;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};

/// A project in a directory with an `AGENTS.md`.
struct Shared {
    pinion: Pinion,
}

impl Shared {
    /// Sets these modes of the directory and of the file.
    fn new(directory: u32, file: u32) -> Self {
        let pinion = Pinion::default();
        pinion.write("shared/mine/.git/HEAD", "");
        pinion.write("shared/AGENTS.md", SECRET);
        let mode = |path: &str, mode: u32| {
            fs::set_permissions(in_workspace(&pinion, path), Permissions::from_mode(mode)).unwrap();
        };
        mode("shared/AGENTS.md", file);
        mode("shared", directory);
        Self { pinion }
    }

    /// Runs in the project and returns the system prompt and stderr.
    fn run(&self) -> (String, String) {
        let vendor = Vendor::start();
        let mut command = self.pinion.command::<&str>([]);
        command.current_dir(in_workspace(&self.pinion, "shared/mine"));
        let stderr = live(&vendor, command).stderr;
        (vendor.prompt(), stderr)
    }
}

#[test]
fn context_file_above_the_project_is_sent_if_only_the_user_can_change_it() {
    let (prompt, stderr) = Shared::new(0o755, 0o644).run();
    let shown = format!("/shared/AGENTS.md\">\n> {SECRET}\n</project_instructions>\n");
    assert!(prompt.contains(&shown) && stderr.is_empty(), "{prompt}{stderr}");
}

#[test]
fn context_file_that_others_could_have_put_above_the_project_is_not_sent() {
    for (directory, file, reason) in [
        (0o1777, 0o644, "others can write to its directory"),
        (0o775, 0o644, "others can write to its directory"),
        (0o755, 0o664, "others can write to it"),
    ] {
        let (prompt, stderr) = Shared::new(directory, file).run();
        assert!(!prompt.contains(SECRET), "{prompt}");
        assert!(stderr.contains(&format!("/shared/AGENTS.md` is not used: {reason}\n")), "{stderr}");
    }
}

#[test]
fn context_file_above_the_project_that_links_elsewhere_is_not_sent() {
    let shared = Shared::new(0o755, 0o644);
    fs::remove_file(in_workspace(&shared.pinion, "shared/AGENTS.md")).unwrap();
    symlink(outside(&shared.pinion), in_workspace(&shared.pinion, "shared/AGENTS.md")).unwrap();
    let (prompt, stderr) = shared.run();
    assert!(!prompt.contains(SECRET) && stderr.contains("/shared/AGENTS.md` is not used"), "{prompt}{stderr}");
}
