//! The files that programs of MCP servers are, or get as arguments.

use crate::files::paths;
use crate::files::private::open_file;
use pinion_mcp::config::ServerTransport;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Looks at files for the words of one server.
const LOOKS: usize = 2_000;
/// First bytes of a database of SQLite.
const DATABASE: &[u8] = b"SQLite format 3\0";

/// Returns the files that the program of a server is, or gets as arguments, without links; they need not exist. Databases are
/// left out: nothing runs them, and a server has to write its own.
pub(crate) fn programs(transport: &ServerTransport, workspace: &Path) -> Vec<PathBuf> {
    let ServerTransport::Stdio { command, args, cwd, .. } = transport else { return Vec::new() };
    let directory = workspace.join(cwd.as_deref().unwrap_or(Path::new("")));
    let home = paths::home();
    let place = pinion_sandbox::CommandPlace { tree: &directory, git: &directory, home: home.as_deref() };
    let mut look = pinion_sandbox::LookBudget::new(LOOKS);
    let words: Vec<Vec<u8>> = args.iter().map(|word| without_variables(word)).collect();
    let (program, words) = (without_variables(command), words.iter().map(Vec::as_slice));
    let files = pinion_sandbox::files_of_arguments(&program, words, place, &mut look).unwrap_or_default();
    let files = files.iter().filter_map(|file| look.resolve(file).ok()).flatten();
    files.filter(|file| !is_database(file)).collect()
}

fn is_database(path: &Path) -> bool {
    let mut begin = Vec::new();
    let read = open_file(path).and_then(|file| file.take(DATABASE.len() as u64).read_to_end(&mut begin));
    read.is_ok() && begin == DATABASE
}

/// Returns a word with the mark of unknown text in place of each variable.
fn without_variables(word: &str) -> Vec<u8> {
    let mut parts = word.split("${");
    let mut text = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        text.push(pinion_sandbox::UNKNOWN);
        text.extend(part.split_once('}').map_or(part, |(_, rest)| rest).as_bytes());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn scripts_and_texts_are_programs_and_databases_are_not() {
        let workspace = tempfile::tempdir().unwrap();
        let workspace = workspace.path().canonicalize().unwrap();
        let file = |name: &str, content: &[u8]| {
            let path = workspace.join(name);
            fs::write(&path, content).unwrap();
            path
        };
        let database = file("store.db", &[DATABASE, &[4; 100]].concat());
        let (script, text) = (file("serve.py", b"print(1)"), file("settings", b"run: x"));
        let args = [&script, &database, &text].map(|path| path.to_string_lossy().into_owned());
        let transport = ServerTransport::Stdio {
            command: "python3".into(),
            args: args.to_vec(),
            env: Default::default(),
            cwd: None,
        };
        assert_eq!(programs(&transport, &workspace), [script, text]);
    }
}
