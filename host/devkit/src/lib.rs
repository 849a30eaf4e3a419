//! Tools for authors of plugins: the manifest and the build of a project, components from core modules, and the cases that
//! test a plugin.
//!
//! Output goes to a [`Screen`](pinion_app::screen::Screen).

pub mod cargo;
pub mod cases;
mod inputs;
pub mod link;
pub mod project;
pub mod sections;
pub mod steps;
pub mod toolchain;

pub use inputs::sources;
