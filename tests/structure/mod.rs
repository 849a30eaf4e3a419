//! Structure of the project: sizes, crates, documents, generated files, the contract.

mod architecture;
mod contract;
mod dependencies;
mod generated;
mod packages;
mod pages;
mod readme;
mod sources;
mod wording;
mod writes;
