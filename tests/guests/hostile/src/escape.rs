//! Attempts to leave the granted directories and to reach the host.

use pinion_plugin_sdk::prelude::*;
use pinion_plugin_sdk::workspace::{self, SearchOptions, WalkOptions};
use std::ffi::{CString, c_char, c_int};
use std::fs;
use std::io::{Read as _, Write as _};

#[derive(Deserialize, JsonSchema)]
struct Path {
    path: String,
}

#[derive(Deserialize, JsonSchema)]
struct Link {
    target: String,
    path: String,
    read: String,
}

#[derive(Deserialize, JsonSchema)]
struct Race {
    outside: String,
    tries: u32,
}

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

pub fn tools() -> Vec<Tool> {
    vec![
        Tool::new("read_path", "Reads any path.", |a: Path, _| Ok(fs::read_to_string(a.path)?)).reads(),
        Tool::new("list_path", "Lists any path.", |a: Path, _| {
            let names: Result<Vec<String>, std::io::Error> =
                fs::read_dir(a.path)?.map(|e| Ok(e?.file_name().to_string_lossy().into_owned())).collect();
            Ok(names?.join("\n"))
        })
        .reads(),
        Tool::new("write_undeclared", "Writes, though it says that it only reads.", |a: Path, _| {
            fs::write(a.path, "x")?;
            Ok("written")
        })
        .reads(),
        Tool::new("write_path", "Writes any path.", |a: Path, _| {
            fs::write(a.path, "x")?;
            Ok("written")
        })
        .writes(),
        Tool::new("read_unseen", "Reads, though it declares no effect.", |a: Path, _| Ok(fs::read_to_string(a.path)?)),
        Tool::new("read_by_link", "Makes a link and reads through it.", |a: Link, _| {
            symlink(&a.target, &a.path)?;
            Ok(fs::read_to_string(a.read)?)
        })
        .writes(),
        Tool::new("race_renames", "Swaps a directory and a link, and reads in between.", race).writes(),
        Tool::new("walk_path", "Walks any path.", |a: Path, _| {
            let found = workspace::walk(&options(a.path))?;
            Ok(found.entries.into_iter().map(|e| e.path).collect::<Vec<_>>().join("\n"))
        })
        .reads(),
        Tool::new("search_path", "Searches any path.", |a: Path, _| {
            let found = workspace::search(&options(a.path), &everything())?;
            Ok(found.files.into_iter().flat_map(|f| f.lines).map(|l| l.text).collect::<Vec<_>>().join("\n"))
        })
        .reads(),
        Tool::new("environment", "Returns the environment and the arguments.", |_: Nothing, _| {
            let variables = std::env::vars().map(|(name, value)| format!("{name}={value}"));
            Ok(variables.chain(std::env::args()).collect::<Vec<_>>().join("\n"))
        }),
        Tool::new("stdio", "Writes to stdout and stderr, and reads stdin.", |_: Nothing, _| {
            println!("\x1b[31mout of the sandbox");
            eprintln!("\x1b[31mout of the sandbox");
            std::io::stdout().flush()?;
            let mut input = String::new();
            std::io::stdin().read_to_string(&mut input)?;
            Ok(format!("stdin: {input}"))
        }),
        Tool::new("connect", "Connects to an address.", |a: Path, _| {
            std::net::TcpStream::connect(a.path)?;
            Ok("connected")
        })
        .network(),
    ]
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

fn options(root: String) -> WalkOptions {
    WalkOptions {
        root,
        globs: vec![],
        types: vec![],
        max_depth: None,
        hidden: true,
        ignore_files: false,
        limit: 10_000,
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
        max_matches_per_file: 1000,
        max_line_bytes: 1000,
    }
}

/// Swaps `door` between a directory and a link to the outside; everything read through it must come from the directory.
/// Another instance of this plugin may do the same concurrently.
fn race(a: Race, _call: &Call) -> Result<String, Error> {
    let mut seen = String::new();
    let _ = fs::create_dir("directory");
    let _ = fs::write("directory/secret.txt", "inside");
    let _ = symlink(&a.outside, "link");
    for _ in 0..a.tries {
        let _ = fs::rename("directory", "door");
        look(&mut seen);
        let _ = fs::rename("door", "directory");
        let _ = fs::rename("link", "door");
        look(&mut seen);
        let _ = fs::rename("door", "link");
    }
    Ok(seen)
}

fn look(seen: &mut String) {
    if let Ok(text) = fs::read_to_string("door/secret.txt") {
        note(seen, &text);
    }
    let found = workspace::search(&options("door".to_owned()), &everything());
    for line in found.into_iter().flat_map(|f| f.files).flat_map(|f| f.lines) {
        note(seen, &line.text);
    }
    let found = workspace::walk(&options(".".to_owned()));
    for entry in found.into_iter().flat_map(|f| f.entries) {
        if entry.path.ends_with("only-outside.txt") {
            note(seen, &entry.path);
        }
    }
}

fn note(seen: &mut String, text: &str) {
    if !seen.contains(text) {
        seen.push_str(text);
        seen.push('\n');
    }
}
