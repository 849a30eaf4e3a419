//! Trust applies to the content of a project, and a project cannot widen anything.
