//! Denials are reported, money is bounded, and time stops while a person decides.
