//! What was approved is what runs.
