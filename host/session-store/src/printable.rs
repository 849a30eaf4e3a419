//! Text from a model, a tool or a file, made fit for a terminal.

pub use pinion_protocol::text::printable;
