//! Untrusted text reaches the terminal neutralized, or not at all.
