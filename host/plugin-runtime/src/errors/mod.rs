//! Errors that several modules share; they depend on nothing that loads or calls plugins.
//!
//! Each names its subject and a kind that a program can match on. `{}` formats the message alone, `{:#}` adds the causes
//! and a last line `hint: …` with the remedy.

mod backtrace;
pub(crate) mod fault;
pub(crate) mod load;

use std::error::Error;
use std::fmt::{Display, Formatter, Result};

/// Appends causes and hint to a message, when `f` asks for the alternate form.
fn write_details(f: &mut Formatter<'_>, mut cause: Option<&dyn Error>, hint: Option<&dyn Display>) -> Result {
    if !f.alternate() {
        return Ok(());
    }
    while let Some(error) = cause {
        write!(f, ": {error}")?;
        cause = error.source();
    }
    hint.map_or(Ok(()), |hint| write!(f, "\nhint: {hint}"))
}
