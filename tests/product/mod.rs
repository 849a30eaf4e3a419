//! The `pinion` command and its crates, with real components and scripted models.

mod agent_starts;
mod agents;
mod browser_login;
mod children;
pub(crate) mod command;
#[cfg(unix)]
mod compaction;
mod confinement;
#[cfg(target_os = "linux")]
mod conversation;
#[cfg(unix)]
mod cost;
mod evaluation;
#[cfg(target_os = "linux")]
mod evaluation_attacks;
#[cfg(target_os = "linux")]
mod evaluation_cases;
mod evaluation_results;
#[cfg(unix)]
mod file_grants;
mod first_contact;
mod http;
mod install;
mod limits;
mod live;
#[cfg(target_os = "linux")]
mod local_servers;
mod long_sessions;
mod mcp_bridge;
mod mcp_command;
mod mcp_login;
#[cfg(target_os = "linux")]
mod mcp_questions;
mod mcp_serve;
mod mcp_servers;
mod packages;
mod permissions;
mod plan;
mod processes;
mod programs;
pub(crate) mod providers;
#[cfg(target_os = "linux")]
mod recordings;
mod replay;
#[cfg(target_os = "linux")]
mod replay_variants;
#[cfg(target_os = "linux")]
mod resume;
#[cfg(target_os = "linux")]
mod session_calls;
mod sessions;
mod skills;
mod streaming;
mod structured_answers;
#[cfg(target_os = "linux")]
mod surroundings;
#[cfg(target_os = "linux")]
mod swe_bench;
#[cfg(target_os = "linux")]
mod undo;
mod untrusted;
#[cfg(target_os = "linux")]
mod update;
