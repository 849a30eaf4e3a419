//! Work that the host does for a guest is bounded in bytes, time and count.
