//! The files that programs of MCP servers are, or get as arguments.

use crate::files::paths;
use pinion_mcp::config::Transport;
use std::path::{Path, PathBuf};

/// Looks at files for the words of one server.
const LOOKS: usize = 2_000;

/// Returns the files that the program of a server is, or gets as arguments, without links; they need not exist.
pub(crate) fn programs(transport: &Transport, workspace: &Path) -> Vec<PathBuf> {
    let Transport::Stdio { command, args, cwd, .. } = transport else { return Vec::new() };
    let directory = workspace.join(cwd.as_deref().unwrap_or(Path::new("")));
    let home = paths::home();
    let place = pinion_sandbox::CommandPlace { tree: &directory, git: &directory, home: home.as_deref() };
    let mut look = pinion_sandbox::Look::new(LOOKS);
    let words: Vec<Vec<u8>> = args.iter().map(|word| without_variables(word)).collect();
    let (program, words) = (without_variables(command), words.iter().map(Vec::as_slice));
    let files = pinion_sandbox::files_of_arguments(&program, words, place, &mut look).unwrap_or_default();
    files.iter().filter_map(|file| look.resolve(file).ok()).flatten().collect()
}

/// Returns a word in which what nobody knows stands for each variable.
fn without_variables(word: &str) -> Vec<u8> {
    let mut parts = word.split("${");
    let mut text = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        text.push(pinion_sandbox::UNKNOWN);
        text.extend(part.split_once('}').map_or(part, |(_, rest)| rest).as_bytes());
    }
    text
}
