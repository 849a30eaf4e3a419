//! A repository is untrusted input to the host itself.
