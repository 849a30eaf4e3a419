//! The proxy protocol: another machine calls the models and relays their replies.
//!
//! A request is one JSON object, posted to `/v1/stream` with a bearer token. The reply arrives as server-sent events,
//! each the smallest step that the loop knows: a part begins, grows, ends. Nothing is sent twice, and the assembled
//! message not at all: the client assembles it from the steps. Both ends of the protocol are in this module, so that
//! they cannot drift apart; [`examples/proxy-server`] is a server in a few dozen lines.
//!
//! ```json
//! {"version":1,"model":"anthropic/claude-opus-5-5","system":"…","messages":[…],"tools":[…],"options":{"thinking":"high"}}
//! ```
//! ```text
//! data: {"type":"start","model":"claude-opus-5-5"}
//! data: {"type":"part","index":0,"kind":"text"}
//! data: {"type":"delta","index":0,"text":"Hello"}
//! data: {"type":"part_end","index":0}
//! data: {"type":"usage","input":12,"output":3,"cache_read":0,"cache_write":0}
//! data: {"type":"end","stop_reason":"stop"}
//! ```
//! An error in mid-reply is an event too: `{"type":"error","kind":"overloaded","message":"…","retry_after_ms":2000}`.
//!
//! [`examples/proxy-server`]: https://github.com/pinion-agent/pinion/tree/main/examples/proxy-server

mod request;
mod stream;

pub use request::{ProxyError, VERSION, forwarded, read_request, request_body};
pub use stream::write_event;

/// Decodes one streamed reply.
pub type ProxyDecoder = crate::decode::SseDecoder<stream::ProxyReply>;
