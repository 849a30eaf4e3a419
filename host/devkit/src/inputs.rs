//! The inputs of a build. If they have not changed, the build is skipped.
//!
//! The digest covers the files of the project that may be sources, the commands and their variables, and the programs that
//! they start. A step that names a file outside the project is always run.

use crate::project::Build;
use pinion_app::files::private::{open_file, read_settings};
use pinion_files::AtomicWrite;
use pinion_plugin_runtime::list_files;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

/// The file in the project that holds the digests of the last build.
const RECORD: &str = "build/.pinion-inputs";
/// Maximum bytes of the sources of a build that is compared with the last one.
const MAX_BYTES: u64 = 256 * 1024 * 1024;
/// Files of a project that say which versions of a toolchain are installed, and are not among its sources.
const INSTALLED: &[&str] = &["node_modules/.package-lock.json", ".venv/pyvenv.cfg"];

/// The digest of all known inputs of the steps.
pub(crate) struct StepInputsDigest {
    digest: String,
    record: PathBuf,
}

impl StepInputsDigest {
    /// Reads the inputs of a build. None if it may depend on more than the project.
    pub(crate) fn from_build(directory: &Path, build: &Build, commands: &[Vec<OsString>]) -> Option<Self> {
        let mut hasher = blake3::Hasher::new();
        let mut add = |text: &[u8]| {
            hasher.update(&(text.len() as u64).to_le_bytes());
            hasher.update(text);
        };
        add(env!("CARGO_PKG_VERSION").as_bytes());
        for words in commands {
            let (program, arguments) = words.split_first()?;
            add(&state(Path::new(program))?);
            for word in arguments {
                if leads_out(directory, word) {
                    return None;
                }
                add(word.as_encoded_bytes());
            }
            add(b"");
        }
        build.env.iter().for_each(|(name, value)| add(format!("{name}={value}").as_bytes()));
        for around in directory.ancestors() {
            INSTALLED.iter().filter_map(|name| state(&around.join(name))).for_each(|state| add(&state));
        }
        let (mut bytes, output) = (0, directory.join(&build.output));
        for path in sources(directory)? {
            let relative = path.strip_prefix(directory).ok()?;
            if path == output || is_case(relative) {
                continue;
            }
            bytes += path.metadata().ok()?.len();
            if bytes > MAX_BYTES {
                return None;
            }
            add(relative.as_os_str().as_encoded_bytes());
            add(digest(&path)?.as_bytes());
        }
        Some(Self { digest: hasher.finalize().to_hex().to_string(), record: directory.join(RECORD) })
    }

    /// Returns whether the last build wrote the output from the same inputs.
    pub(crate) fn is_unchanged(&self, output: &Path) -> bool {
        let Some(made) = digest(output) else { return false };
        read_settings(&self.record).is_ok_and(|known| known == Some(self.record_of(&made)))
    }

    /// Records the inputs of an output that was built. Without the record, the next build runs its steps.
    pub(crate) fn record(&self, output: &Path) {
        if let Some(made) = digest(output) {
            let _ = self.write(&self.record_of(&made));
        }
    }

    /// Replaces the record, and not the target of a link in its place.
    fn write(&self, text: &str) -> io::Result<()> {
        let directory = self.record.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(directory)?;
        AtomicWrite::private().replace_through(directory, &self.record, text.as_bytes())
    }

    fn record_of(&self, made: &str) -> String {
        format!("inputs {}\noutput {made}\n", self.digest)
    }
}

/// Returns whether a word names something that exists outside the project.
fn leads_out(directory: &Path, word: &OsString) -> bool {
    let path = directory.join(word);
    let Ok(real) = path.canonicalize() else { return false };
    let inside = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
    !real.starts_with(inside)
}

/// Returns whether a file has cases for `pinion plugin test`, which no build reads.
fn is_case(path: &Path) -> bool {
    let is_of_cases = path.extension().is_some_and(|name| name == "toml" || name == "json");
    path.parent() == Some(Path::new("tests")) && is_of_cases
}

/// Returns the path, size and time of a file.
fn state(path: &Path) -> Option<Vec<u8>> {
    let metadata = path.metadata().ok()?;
    let time = metadata.modified().ok()?.duration_since(UNIX_EPOCH).ok()?.as_nanos();
    Some(format!("{}\n{}\n{time}", path.display(), metadata.len()).into_bytes())
}

fn digest(path: &Path) -> Option<String> {
    let mut hasher = blake3::Hasher::new();
    let mut file = open_file(path).ok()?;
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match file.read(&mut buffer).ok()? {
            0 => return Some(hasher.finalize().to_hex().to_string()),
            read => hasher.update(&buffer[..read]),
        };
    }
}

/// Time that listing the files may take.
const LISTING: Duration = Duration::from_secs(10);

/// Directories that builds write to, whether or not they are ignored.
const BUILT: &[&str] = &["build", "target", "node_modules", "__pycache__"];

/// Lists the files of a project that a build may depend on. None if they cannot be listed, or not all of them.
pub fn sources(root: &Path) -> Option<Vec<PathBuf>> {
    let is_source = |path: &String| !Path::new(path).iter().any(|name| BUILT.iter().any(|built| name == *built));
    let listed = list_files(root, LISTING).ok().filter(|listed| !listed.is_cut)?;
    Some(listed.paths.iter().filter(|path| is_source(path)).map(|path| root.join(path)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project::Project;

    #[test]
    fn build_is_skipped_until_a_source_a_command_or_the_output_changes() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let write = |name: &str, text: &str| {
            fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
            fs::write(root.join(name), text).unwrap();
        };
        let read = |steps: &str| {
            let text =
                format!("name = \"a\"\nversion = \"0.1.0\"\n[build]\nsteps = {steps}\noutput = \"build/out.wasm\"\n");
            write("pinion-plugin.toml", &text);
            Project::read(root).unwrap().unwrap().build
        };
        let build = read("[['cp', 'src/a', 'build/out.wasm']]");
        let commands = |word: &str| vec![["/bin/sh", word].map(OsString::from).to_vec()];
        write("src/a", "1");
        write("build/out.wasm", "made");
        let output = root.join("build/out.wasm");
        let inputs = |word: &str| StepInputsDigest::from_build(root, &build, &commands(word)).unwrap();
        assert!(!inputs("x").is_unchanged(&output));
        inputs("x").record(&output);
        assert!(inputs("x").is_unchanged(&output) && !inputs("y").is_unchanged(&output));
        write("tests/cases.toml", "");
        assert!(inputs("x").is_unchanged(&output), "cases are no sources");
        write("src/a", "2");
        assert!(!inputs("x").is_unchanged(&output));
        write("src/a", "1");
        assert!(inputs("x").is_unchanged(&output));
        write("build/out.wasm", "changed");
        assert!(!inputs("x").is_unchanged(&output));
        assert!(
            StepInputsDigest::from_build(root, &build, &commands("/bin/sh")).is_none(),
            "a file outside the project"
        );
    }
}
