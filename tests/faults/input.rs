//! Input that the program does not expect.

use super::{assert_failed, run, say, scripted, wrapped};
use pinion_tests::Pinion;
use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::process::Stdio;

#[test]
fn open_stdin_that_stays_silent_is_reported() {
    let pinion = Pinion::default();
    let mut child = scripted(&pinion, &[say("hi")], &[]).stdin(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("waiting for the end of stdin") && line.contains("< /dev/null"), "{line}");
    drop(child.stdin.take());
    let mut answer = String::new();
    child.stdout.take().unwrap().read_to_string(&mut answer).unwrap();
    assert_eq!((answer.as_str(), child.wait().unwrap().code()), ("hi\n", Some(0)));
}

#[test]
fn binary_stdin_is_reported() {
    let pinion = Pinion::default();
    let script = pinion.script(&[say("hi")]);
    let ended = pinion.run_with_stdin(["-p", "--replay", script.to_str().unwrap(), "what is this"], b"\xff\xfe\x00x");
    assert!(ended.code == Some(0) && ended.stderr.contains("stdin is not UTF-8 text"), "{ended:?}");
    let ended = pinion.run_with_stdin(["-p", "--replay", script.to_str().unwrap()], "schön".as_bytes());
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
}

#[test]
fn workspace_that_is_not_utf8_is_refused() {
    let pinion = Pinion::default();
    let directory = pinion.workspace().join(OsStr::from_bytes(b"caf\xe9"));
    std::fs::create_dir(&directory).unwrap();
    let mut command = scripted(&pinion, &[say("x")], &[]);
    command.current_dir(&directory);
    assert_failed(&run(command), 2, &["cannot work in", "not UTF-8", "rename"]);
}

#[test]
fn deleted_workspace_is_refused() {
    let pinion = Pinion::default();
    let command = scripted(&pinion, &[say("x")], &[]);
    let ended = run(wrapped(&["sh", "-c", "mkdir gone && cd gone && rmdir ../gone && exec \"$@\"", "sh"], &command));
    assert_failed(&ended, 2, &["cannot work in"]);
}

#[test]
fn config_that_is_no_regular_file_is_refused() {
    let pinion = Pinion::default();
    let config = pinion.home().join("config.toml");
    assert!(std::process::Command::new("mkfifo").arg(&config).status().unwrap().success());
    assert_failed(&run(scripted(&pinion, &[say("x")], &[])), 2, &["config.toml", "not a regular file"]);
    std::fs::remove_file(&config).unwrap();
    std::os::unix::fs::symlink("/dev/zero", &config).unwrap();
    assert_failed(&run(scripted(&pinion, &[say("x")], &[])), 2, &["config.toml", "not a regular file"]);
    std::fs::remove_file(&config).unwrap();
    std::fs::write(&config, b"model = \"\xe9\"").unwrap();
    assert_failed(&run(scripted(&pinion, &[say("x")], &[])), 2, &["config.toml", "not UTF-8"]);
}
