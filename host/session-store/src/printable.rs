//! Text from a model, a tool or a file, made harmless for a terminal.

pub use pinion_protocol::text::printable;
