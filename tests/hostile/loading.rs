//! Loading a plugin is bounded and delays nobody.
