//! Interprets lists of random file operations and reports the result of each.

use pinion_plugin_sdk::prelude::*;
use pinion_plugin_sdk::workspace::{self, SearchOptions, WalkOptions};
use std::ffi::{CString, c_char, c_int};
use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};

/// Maximum bytes of content to report.
const MAX_SHOWN: u64 = 200;

#[derive(Deserialize, JsonSchema)]
struct Steps {
    steps: Vec<Step>,
}

#[derive(Deserialize, JsonSchema)]
struct Step {
    does: String,
    path: String,
    /// The second path: target of a link or a rename.
    #[serde(default)]
    other: String,
}

pub fn tools() -> Vec<Tool> {
    vec![
        Tool::new("steps_none", "Does steps, though it declares no effect.", steps),
        Tool::new("steps_read", "Does steps, though it declares that it only reads.", steps).reads(),
        Tool::new("steps_write", "Does steps.", steps).writes(),
    ]
}

fn steps(a: Steps, _call: &Call) -> Result<String> {
    let mut held = Vec::new();
    let reports = a.steps.iter().map(|step| match step.run(&mut held) {
        Ok(seen) => format!("ok {}", seen.replace('\n', " ")),
        Err(_) => "failed".to_owned(),
    });
    Ok(reports.collect::<Vec<_>>().join("\n"))
}

impl Step {
    fn run(&self, held: &mut Vec<File>) -> Result<String> {
        let Self { does, path, other } = self;
        let done = || "done".to_owned();
        Ok(match does.as_str() {
            "read" => shown(&mut File::open(path)?)?,
            "write" => fs::write(path, "written").map(|()| done())?,
            "append" => OpenOptions::new().append(true).open(path)?.write_all(b"more").map(|()| done())?,
            "truncate" => OpenOptions::new().write(true).open(path)?.set_len(0).map(|()| done())?,
            "hold" => {
                let file = OpenOptions::new().read(true).write(true).open(path).or_else(|_| File::open(path))?;
                held.push(file);
                done()
            }
            "read_held" => held.iter_mut().map(again).collect::<Result<Vec<_>>>()?.join(" "),
            "write_held" => {
                let written = held.iter_mut().filter_map(|file| file.write_all(b"held").ok()).count();
                format!("{written} written")
            }
            "list" => {
                let names = fs::read_dir(path)?.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
                names.collect::<Vec<_>>().join(" ")
            }
            "stat" => format!("{} bytes", fs::metadata(path)?.len()),
            "read_link" => fs::read_link(path)?.to_string_lossy().into_owned(),
            "mkdir" => fs::create_dir(path).map(|()| done())?,
            "mkdirs" => fs::create_dir_all(path).map(|()| done())?,
            "symlink" => symlink(other, path).map(|()| done())?,
            "link" => fs::hard_link(path, other).map(|()| done())?,
            "rename" => fs::rename(path, other).map(|()| done())?,
            "remove" => fs::remove_file(path).map(|()| done())?,
            "remove_dir" => fs::remove_dir(path).map(|()| done())?,
            "remove_all" => fs::remove_dir_all(path).map(|()| done())?,
            "replace" => workspace::replace_file(path, b"replaced").map(|()| done())?,
            "walk" => {
                let found = workspace::walk(&files(path))?;
                found.entries.into_iter().map(|entry| entry.path).collect::<Vec<_>>().join(" ")
            }
            "search" => {
                let found = workspace::search(&files(path), &everything())?;
                let lines = found.files.into_iter().flat_map(|file| file.lines);
                lines.map(|line| line.text).collect::<Vec<_>>().join(" ")
            }
            unknown => return Err(Error::invalid_input(unknown)),
        })
    }
}

fn shown(file: &mut File) -> Result<String> {
    let mut bytes = Vec::new();
    file.take(MAX_SHOWN).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn again(file: &mut File) -> Result<String> {
    file.seek(SeekFrom::Start(0))?;
    shown(file)
}

/// Declared here because the standard library's version is unstable.
fn symlink(target: &str, path: &str) -> std::io::Result<()> {
    unsafe extern "C" {
        fn symlink(target: *const c_char, path: *const c_char) -> c_int;
    }
    let (target, path) = (CString::new(target)?, CString::new(path)?);
    // The two strings end with NUL, as required.
    match unsafe { symlink(target.as_ptr(), path.as_ptr()) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

fn files(root: &str) -> WalkOptions {
    WalkOptions {
        root: root.to_owned(),
        globs: vec![],
        types: vec![],
        max_depth: None,
        hidden: true,
        ignore_files: false,
        limit: 1000,
    }
}

fn everything() -> SearchOptions {
    SearchOptions {
        pattern: ".".to_owned(),
        regex: true,
        case_sensitive: true,
        multiline: false,
        before: 0,
        after: 0,
        max_matches: 1000,
        max_matches_per_file: 10,
        max_line_bytes: 200,
    }
}
