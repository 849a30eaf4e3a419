//! The encoding of the contract's types in a journal. A type without a row here cannot be an argument or a result.

use crate::bindings::exports::pinion::plugin as exports;
use crate::bindings::hooks::exports::pinion::hooks as run_hooks;
use crate::bindings::hooks::pinion::hooks::types::HookContext;
use crate::bindings::pinion::plugin as wit;
use pinion_plugin_journal::value::EncodeValue;

/// The types of the contract, whose bindings derive their encoding.
macro_rules! derived {
    ($($value:ty),+ $(,)?) => {$(
        impl EncodeValue for $value {
            fn encode(&self, out: &mut Vec<u8>) {
                // Fails only where memory is exhausted.
                if let Ok(all) = postcard::to_extend(self, std::mem::take(out)) {
                    *out = all;
                }
            }
        }
    )+};
}
derived!(
    wit::types::CallContext,
    wit::types::Content,
    wit::types::ToolCall,
    wit::types::ToolOutput,
    wit::types::ToolError,
    wit::agents::AgentError,
    wit::agents::Assignment,
    wit::agents::Kind,
    wit::agents::Report,
    wit::catalog::CommandInfo,
    wit::catalog::ModelInfo,
    wit::catalog::PluginInfo,
    wit::catalog::ToolInfo,
    wit::catalog::UsageInfo,
    wit::child_process::OutputStream,
    wit::child_process::ReadResult,
    wit::http::HttpError,
    wit::http::Request,
    wit::http::Response,
    wit::invoke::Callable,
    wit::log::Level,
    wit::mcp::McpError,
    wit::mcp::Server,
    wit::model::Completion,
    wit::model::CompletionRequest,
    wit::model::ModelError,
    wit::process::Command,
    wit::child_process::Exit,
    wit::process::Output,
    wit::process::ProcessError,
    wit::questions::Answer,
    wit::questions::NamedQuestion,
    wit::questions::QuestionError,
    wit::session::Entry,
    wit::session::SessionError,
    wit::storage::Scope,
    wit::storage::StorageError,
    wit::storage::Stored,
    wit::ui::Block,
    wit::ui::Severity,
    wit::ui::UiError,
    wit::workspace::Chunk,
    wit::workspace::ReplaceError,
    wit::workspace::SearchOptions,
    wit::workspace::SearchResult,
    wit::workspace::WalkOptions,
    wit::workspace::WalkResult,
    wit::workspace::WorkspaceError,
    exports::before_compaction::Compaction,
    exports::before_prompt::PromptVerdict,
    exports::before_tool_call::Verdict,
    exports::commands::Action,
    exports::commands::CommandDefinition,
    exports::commands::Completion,
    exports::offers::Offer,
    exports::tools::ToolDefinition,
    HookContext,
    run_hooks::before_stop::Stop,
    run_hooks::before_stop::StopVerdict,
    run_hooks::session_start::SessionInfo,
);

/// Flags are a number, of which each bit is one flag.
impl serde::Serialize for wit::types::Effects {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u32(self.as_array()[0])
    }
}
