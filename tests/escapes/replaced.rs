//! Files that the user replaces while a program runs, which takes the system's mounts over them away.

use super::world::{User, World};
use super::{BOTH, NAMESPACES};
use pinion_sandbox::Fate;
use pinion_tests::has_namespaces;
use std::fs;

/// Replaces files that decide which programs run, as git and editors do. Returns the path, its new content, and the
/// program's attempt.
const REPLACED: &[(&str, &str, &str)] = &[
    (
        "work/.git/config",
        "git config branch.main.remote origin",
        "printf '[core]\\n\\tfsmonitor = x\\n' >> .git/config && echo ESCAPED",
    ),
    (
        "work/.vscode",
        "mv .vscode old && mkdir .vscode && echo mine > .vscode/tasks.json",
        "echo evil > .vscode/tasks.json && echo ESCAPED",
    ),
    ("work/tools/clean.sh", "echo cat > new && mv new tools/clean.sh", "echo evil > tools/clean.sh && echo ESCAPED"),
    ("work/.vscode", "rm -r .vscode", "mkdir .vscode && echo ESCAPED"),
];

#[test]
fn program_ends_when_a_protected_file_is_replaced_outside() {
    if !has_namespaces() {
        return;
    }
    for user in [User::This, User::Other].into_iter().filter(|user| user.is_possible()) {
        for layers in [BOTH, NAMESPACES] {
            for (path, change, script) in REPLACED {
                let world = World::new(user);
                let (output, reverted) = world.during(script, layers, change, None);
                let (stdout, stderr) =
                    (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
                assert!(output.status.code() == Some(125) && !stdout.contains("ESCAPED"), "{change}: {stdout}{stderr}");
                let named = format!("`{}` was replaced while the program ran", world.at(path).display());
                assert!(stderr.contains(&named) && stderr.contains("hint: run it again"), "{stderr}");
                // Only the user's content is there.
                assert!(reverted.iter().all(|(_, fate)| *fate == Fate::Replaced), "{reverted:?}");
            }
        }
    }
}

#[test]
fn hidden_file_that_is_replaced_outside_is_hidden_again() {
    if !has_namespaces() {
        return;
    }
    for user in [User::This, User::Other].into_iter().filter(|user| user.is_possible()) {
        for (path, change) in [
            ("work/.env", "echo TOP-SECRET > new && mv new .env"),
            ("home/.netrc", "echo TOP-SECRET > $HOME/new && mv $HOME/new $HOME/.netrc"),
            // As editors do: the mount goes with the old file.
            ("home/.netrc", "mv $HOME/.netrc $HOME/old && echo TOP-SECRET > $HOME/.netrc && rm $HOME/old"),
        ] {
            let world = World::new(user);
            let script = format!("cat {}; echo end", world.at(path).display());
            let (output, reverted) = world.during(&script, BOTH, change, Some(path));
            let stdout = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && stdout == "end\n" && reverted.is_empty(), "{change}: {output:?}");
            assert_eq!(fs::read_to_string(world.at(path)).unwrap(), "TOP-SECRET\n");
        }
    }
}
