//! Granted directories are opened once, and the narrower grant wins on every path.
