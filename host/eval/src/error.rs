//! Errors of cases and results.

use std::io;
use std::path::{Path, PathBuf};

/// A failure of an evaluation, apart from the failure of a trial.
#[derive(Debug, thiserror::Error)]
pub enum EvalError {
    /// A file could not be read.
    #[error("could not read `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// A file could not be written.
    #[error("could not write `{}`", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// A file is neither YAML nor TOML, or a result is not JSON.
    #[error("`{}` is not {format}: {problem}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// The expected format.
        format: &'static str,
        /// The position and the problem.
        problem: String,
    },
    /// A field of a set is invalid.
    #[error("`{}`: `{field}`: {problem}", path.display())]
    SetField {
        /// The file.
        path: PathBuf,
        /// The path of the field, such as `gate.pass-rate`.
        field: String,
        /// The problem.
        problem: String,
    },
    /// A field of a case is invalid.
    #[error("`{}`: case `{case}`: `{field}`: {problem}", path.display())]
    CaseField {
        /// The file.
        path: PathBuf,
        /// The id of the case, or its number if it has none.
        case: String,
        /// The path of the field, such as `expect.tools.mode`.
        field: String,
        /// The problem.
        problem: String,
    },
    /// No stored result has this id.
    #[error("no result `{id}`")]
    NoResult {
        /// The id, or its beginning.
        id: String,
    },
    /// The set has no other stored result.
    #[error("set `{set}` has no other result")]
    NoOtherResult {
        /// Id of the set.
        set: String,
    },
    /// Several stored results have ids that begin so.
    #[error("`{id}` is the beginning of {count} results")]
    Ambiguous {
        /// The beginning.
        id: String,
        /// The number of results.
        count: usize,
    },
    /// A session could not be read.
    #[error("could not read the session `{}`: {problem}", path.display())]
    Session {
        /// The file of the session.
        path: PathBuf,
        /// The problem.
        problem: String,
    },
}

impl EvalError {
    /// Creates the failure to read a file.
    pub fn read(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Read { path: path.to_owned(), source }
    }

    /// Creates the failure to write a file.
    pub fn write(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Write { path: path.to_owned(), source }
    }
}
