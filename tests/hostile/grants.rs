//! A grant belongs to a component: its source and, for files, its digest.
