//! A call never exceeds what its tool declares, on any instance.
