//! Granted directories, the access to the places in them, and the places that no grant reaches.
//!
//! A decision takes two steps. [`roots`] holds the granted directories, each opened once; everything is found beneath
//! their handles. [`policy`] decides the permitted access to the location that was found.

pub mod access;
pub mod policy;
pub mod protected;
pub mod roots;
