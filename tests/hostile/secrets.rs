//! Secrets never come back out.
