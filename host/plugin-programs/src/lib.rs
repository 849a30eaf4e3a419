//! Programs that plugins start.
//!
//! A [`ProgramRun`] runs a program to its end, and a [`ChildProgram`] is one that its plugin talks to meanwhile. Both begin a
//! separate process group, which is killed in the end: when the program ends, at its timeout, when the call is cancelled,
//! and when the call's future is dropped. A second process, the [guard](guard_programs), kills the groups of a host that
//! is killed. Output is kept in bounded memory, and beyond that in a file ([`Spill`]).
//!
//! The crate does not decide which plugin may start programs. The caller checks the grant, and passes the whole
//! environment and the application's [`Confinement`] in a [`ProgramSetup`].

mod child;
mod command;
mod confinement;
mod process_guard;
mod run;
mod spill;

pub use child::{ChildProgram, ChildWait};
pub use command::{
    CapturedOutput, OutputSource, ProgramCommand, ProgramError, ProgramExit, ProgramOutput, ProgramRead, ProgramSetup,
};
pub use confinement::{AfterProgram, ConfinedProgram, Confinement, PlainProgram};
pub use process_guard::{guard_for_parent, guard_programs};
pub use run::{ProgramGroup, ProgramRun};
pub use spill::{Spill, WriteBudget};
