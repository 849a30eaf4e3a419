//! Makes the host do as much work as a few bytes can request.

use pinion_plugin_sdk::prelude::*;
use pinion_plugin_sdk::process::{self, Command as Program};
use pinion_plugin_sdk::workspace::{self, SearchOptions, WalkOptions};
use pinion_plugin_sdk::{log, progress};
use std::fs::{self, OpenOptions};
use std::io::{Seek as _, SeekFrom, Write as _};

#[derive(Deserialize, JsonSchema)]
struct Walk {
    #[serde(default = "here")]
    root: String,
    /// Repetitions of each glob.
    #[serde(default)]
    globs: Vec<String>,
    #[serde(default)]
    types: Vec<String>,
    #[serde(default = "once")]
    times: usize,
    #[serde(default)]
    ignore_files: bool,
    #[serde(default = "most")]
    limit: u32,
}

#[derive(Deserialize, JsonSchema)]
struct Search {
    pattern: String,
    /// Repetitions of the pattern.
    #[serde(default = "once")]
    times: usize,
    #[serde(default)]
    multiline: bool,
    #[serde(default)]
    context: u32,
    #[serde(default = "most")]
    matches: u32,
    #[serde(default = "longest")]
    line_bytes: u32,
}

#[derive(Deserialize, JsonSchema)]
struct Amount {
    amount: usize,
}

#[derive(Deserialize, JsonSchema)]
struct Picture {
    media_type: String,
    /// The first bytes in hexadecimal digits.
    start: String,
    /// Total length in bytes.
    bytes: usize,
}

#[derive(Deserialize, JsonSchema)]
struct Write {
    path: String,
    /// One of `write`, `append`, `far`, `set_len`, `replace`.
    how: String,
    /// Number of bytes per write, or the offset.
    bytes: u64,
    #[serde(default = "once")]
    times: usize,
}

#[derive(Deserialize, JsonSchema)]
struct Spawn {
    script: String,
    #[serde(default)]
    argument_bytes: usize,
    #[serde(default = "once")]
    times: usize,
}

fn here() -> String {
    ".".to_owned()
}

fn once() -> usize {
    1
}

fn most() -> u32 {
    u32::MAX
}

fn longest() -> u32 {
    1000
}

pub fn tools() -> Vec<Tool> {
    vec![
        Tool::new("walk_all", "Walks and returns the number of entries.", |a: Walk, _| {
            let found = workspace::walk(&files(a))?;
            Ok(format!("{} entries, truncated: {}", found.entries.len(), found.truncated))
        })
        .reads(),
        Tool::new("search_all", "Searches and returns the number of matches.", search).reads(),
        Tool::new("give_parts", "Gives that many empty texts.", |a: Amount, _| {
            Ok((1..a.amount).fold(Output::text(""), |output, _| output.with_text("")))
        }),
        Tool::new("give_texts", "Gives that many texts.", |a: Amount, _| {
            Ok((1..a.amount).fold(Output::text("x"), |output, _| output.with_text("x")))
        }),
        Tool::new("update_parts", "Sends that many empty texts as a partial result.", |a: Amount, _| {
            let parts: Vec<_> = (0..a.amount).map(|_| progress::Content::Text(String::new())).collect();
            progress::update(&parts);
            let parts: Vec<_> = (0..a.amount).map(|_| progress::Content::Text("x".to_owned())).collect();
            progress::update(&parts);
            Ok("updated")
        }),
        Tool::new("give_picture", "Returns bytes declared as an image.", |a: Picture, _| {
            let digits = a.start.as_bytes().chunks(2).map(|two| std::str::from_utf8(two).unwrap_or("0"));
            let mut data: Vec<u8> = digits.map(|two| u8::from_str_radix(two, 16).unwrap_or(0)).collect();
            data.resize(a.bytes.max(data.len()), 0);
            Ok(Output::image(a.media_type, data))
        }),
        Tool::new("give_details", "Gives that many numbers as details.", |a: Amount, _| {
            Ok(Output::text("done").details(vec![0_u8; a.amount]))
        }),
        Tool::new("give_language", "Names a language in that many bytes.", |a: Amount, _| {
            Ok(Output::text("done").code("x".repeat(a.amount)))
        }),
        Tool::new("fail_loudly", "Fails with that many bytes.", |a: Amount, _| -> Result<String> {
            Err(Error::failed("x".repeat(a.amount)))
        }),
        Tool::new("flood_log", "Logs that many lines of a thousand bytes.", |a: Amount, _| {
            let line = "x".repeat(1000);
            (0..a.amount).for_each(|_| log::log(log::Level::Info, &line));
            Ok("logged")
        }),
        Tool::new("write_much", "Writes.", write).writes(),
        Tool::new("spawn", "Runs a shell script, that many times.", spawn).executes(),
    ]
}

fn files(a: Walk) -> WalkOptions {
    WalkOptions {
        root: a.root,
        globs: repeated(&a.globs, a.times),
        types: repeated(&a.types, a.times),
        max_depth: None,
        hidden: true,
        ignore_files: a.ignore_files,
        limit: a.limit,
    }
}

fn repeated(texts: &[String], times: usize) -> Vec<String> {
    (0..times).flat_map(|_| texts.iter().cloned()).collect()
}

fn search(a: Search, _call: &Call) -> Result<String> {
    let files = WalkOptions {
        root: ".".to_owned(),
        globs: vec![],
        types: vec![],
        max_depth: None,
        hidden: true,
        ignore_files: false,
        limit: u32::MAX,
    };
    let what = SearchOptions {
        pattern: a.pattern.repeat(a.times),
        regex: true,
        case_sensitive: true,
        multiline: a.multiline,
        before: a.context,
        after: a.context,
        max_matches: a.matches,
        max_matches_per_file: a.matches,
        max_line_bytes: a.line_bytes,
    };
    let found = workspace::search(&files, &what)?;
    let lines: usize = found.files.iter().map(|file| file.lines.len()).sum();
    Ok(format!("{} files, {} matches, {lines} lines, truncated: {}", found.files.len(), found.matches, found.truncated))
}

fn write(a: Write, _call: &Call) -> Result<String> {
    let bytes = || vec![b'x'; usize::try_from(a.bytes).unwrap_or(0)];
    let mut options = OpenOptions::new();
    options.create(true).write(true);
    for _ in 0..a.times {
        match a.how.as_str() {
            "write" => fs::write(&a.path, bytes())?,
            "append" => OpenOptions::new().create(true).append(true).open(&a.path)?.write_all(&bytes())?,
            "far" => {
                let mut file = options.open(&a.path)?;
                file.seek(SeekFrom::Start(a.bytes))?;
                file.write_all(b"x")?;
            }
            "set_len" => options.open(&a.path)?.set_len(a.bytes)?,
            "replace" => workspace::replace_file(&a.path, &bytes())?,
            other => return Err(Error::invalid_input(other.to_owned())),
        }
    }
    Ok("written".to_owned())
}

fn spawn(a: Spawn, _call: &Call) -> Result<String> {
    let command = Program {
        program: "sh".to_owned(),
        args: vec!["-c".to_owned(), a.script, "x".repeat(a.argument_bytes)],
        working_directory: None,
        environment: vec![],
        stdin: vec![],
        timeout_ms: None,
        max_output: 1000,
        extra: None,
    };
    let mut ended = String::new();
    for _ in 0..a.times {
        let output = process::run(&command)?;
        ended = format!(
            "code={:?} signal={:?} total={} spilled={}",
            output.exit_code,
            output.signal,
            output.stdout.total,
            output.spilled_to.unwrap_or_default()
        );
    }
    Ok(ended)
}
