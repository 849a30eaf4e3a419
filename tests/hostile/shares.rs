//! No plugin can starve another one.
