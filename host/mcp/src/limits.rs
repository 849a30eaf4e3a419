//! Limits on servers, which are strangers: sizes, counts and times.

use std::time::Duration;

/// Maximum bytes of one message from a server.
pub const MAX_MESSAGE: usize = 16 << 20;
/// Maximum values of one message, because each takes a multiple of its bytes once it is parsed.
pub const MAX_VALUES: usize = 400_000;
/// Maximum entries of a list in a result, such as parts of content, messages or the tools of a page; the rest is dropped.
pub const MAX_LIST: usize = 2_048;
/// Maximum tools or prompts of one server; the rest is dropped.
pub const MAX_ENTRIES: usize = 1_024;
/// Maximum bytes of all definitions of one server; the rest is dropped.
pub const MAX_CATALOGUE: usize = 1 << 20;
/// Maximum bytes of one definition; a larger one is dropped.
pub const MAX_DEFINITION: usize = 64 << 10;
/// Maximum nesting of one definition; a deeper one is dropped.
pub const MAX_DEPTH: usize = 48;
/// Maximum bytes of the name of a tool or prompt.
pub const MAX_NAME: usize = 128;
/// Maximum bytes of a server's instructions; the rest is cut off.
pub const MAX_INSTRUCTIONS: usize = 16 << 10;
/// Maximum pages of one list.
pub const MAX_PAGES: usize = 64;
/// Maximum rounds of input that a server asks for before it answers one request.
pub const MAX_INPUT_ROUNDS: usize = 8;
/// Maximum questions in one such round, and requests of a server that wait for an answer.
pub const MAX_QUESTIONS: usize = 8;
/// Maximum bytes of the arguments of one request.
pub const MAX_ARGUMENTS: usize = 4 << 20;
/// Bytes of a server's standard error that are kept for messages.
pub const STDERR_TAIL: usize = 8 << 10;
/// Maximum requests in flight to one server; more wait.
pub const MAX_IN_FLIGHT: usize = 64;
/// Maximum lines on a server's standard output that are no messages, as from a stray `print`.
pub const MAX_STRAY_LINES: usize = 256;

/// Longest wait for a stdio server to answer `server/discover`; a server that takes longer counts as an older one.
/// Interpreters take seconds to start on a busy machine.
pub(crate) const DISCOVERY_WAIT: Duration = Duration::from_secs(10);
/// Wait for a server to end by itself before it is killed.
pub(crate) const EXIT_WAIT: Duration = Duration::from_secs(2);
/// First wait before a server is started again; it doubles with each failure.
pub(crate) const BACKOFF_FIRST: Duration = Duration::from_millis(250);
/// Longest wait before a server is started again.
pub(crate) const BACKOFF_MAX: Duration = Duration::from_secs(60);
/// Longest such wait that a request sits out; for a longer one it fails at once.
pub(crate) const BACKOFF_SAT_OUT: Duration = Duration::from_secs(2);
/// Minimum life of a connection whose end does not count as a failure to start.
pub(crate) const HEALTHY: Duration = Duration::from_secs(30);
/// Wait after a notice of a changed list, so that a flood of them leads to one fetch.
pub(crate) const COALESCE: Duration = Duration::from_millis(100);
/// Shortest time between two fetches of a changed list.
pub(crate) const REFETCH_GAP: Duration = Duration::from_secs(1);
/// Shortest time that a list is good, even if the server says less.
pub(crate) const REFETCH_LIFETIME: Duration = Duration::from_secs(60);
/// Longest wait before a subscription that ended is opened again.
pub(crate) const LISTEN_WAIT_MAX: Duration = Duration::from_secs(60);
/// Connections that may be lost while one request waits for a task.
pub(crate) const MAX_TASK_LOSSES: u32 = 5;
/// Times in a row that a server may ask for more scopes than at the first login.
pub(crate) const MAX_STEP_UPS: u32 = 2;
/// Maximum characters of a server's text within one of our messages.
pub(crate) const MAX_QUOTED: usize = 500;
