//! The wire format of Amazon Bedrock's ConverseStream, one format for the models of many vendors.
//!
//! [`request_body`] serializes a request and [`BedrockDecoder`] decodes the reply; neither deals with HTTP or signatures.
//! Parameters that only one vendor's models know go into `additionalModelRequestFields`: for Claude, the thinking
//! fields of Anthropic's own format. The reply is an AWS event stream, not server-sent events, and its token counts
//! follow its end.
//!
//! Documentation: <https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStream.html>,
//! <https://docs.aws.amazon.com/bedrock/latest/userguide/prompt-caching.html>,
//! `/claude-messages-adaptive-thinking.html` next to it.

mod body;
mod stream;

pub use body::request_body;
pub use stream::BedrockDecoder;
