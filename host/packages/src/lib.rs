//! Packages of plugins, from a source to the directory that the host loads them from.
//!
//! A [`Package`] is a set of named files that was read completely and checked: components, skills, prompts and MCP servers.
//! The [`PackageStore`] keeps packages by the digest of their content, and activates one version of each. Its
//! [`PluginLock`] records the source, the digests, the signer and the authority that the user agreed to. Nothing in this
//! crate runs or compiles code of a package, and nothing in it asks the user or opens a connection: the application
//! passes a [`ComponentReader`] that reads manifests, and bytes that it fetched.
//!
//! To follow an installation, read `package.rs`, `layout.rs` and `store.rs`.

pub mod archive;
mod digest;
mod files;
mod hooks;
mod index;
mod json;
mod layout;
mod lock;
mod marketplace;
mod oci;
mod package;
mod placeholders;
mod project;
mod release;
mod rules;
mod servers;
mod signature;
mod source;
mod store;
mod store_error;
mod store_servers;

pub use digest::{blake3_hex, sha256_hex};
pub use files::{FileLimit, PackageFiles};
pub use hooks::PackagedHook;
pub use index::{IndexEntry, PackageIndex, compare_versions};
pub use json::parse_strict;
pub use lock::{KnownAuthor, LockError, LockedComponent, LockedPackage, LockedRelease, LockedServer, PluginLock};
pub use marketplace::{Marketplace, MarketplaceEntry, MarketplaceSource};
pub use oci::{ArtifactContent, OciManifest, OciReference, artifact_manifest};
pub use package::{ComponentFacts, ComponentReader, Package, PackageError, PackagedComponent};
pub use project::{ProjectPackage, ProjectPackages};
pub use release::SignedRelease;
pub use rules::{InstallationCandidate, InstallationRules, RuleViolation, SignedSource};
pub use servers::PackagedServer;
pub use signature::{AuthorKey, SigningKey, verify_signature};
pub use source::{PackageSource, is_on_this_machine, shown_source};
pub use store::{InstallRequest, PackageStore, StorePaths};
pub use store_error::StoreError;
pub use store_servers::check_directory;
