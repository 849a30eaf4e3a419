//! The integration tests of Pinion: real components in the real runtime, scripted models.

mod confinement;
mod generated;
mod limits;
mod programs;
mod registry;
