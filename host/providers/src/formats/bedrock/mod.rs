//! The wire format of Amazon Bedrock's ConverseStream, which is one for the models of many vendors.
//!
//! [`request_body`] turns a request into a body, [`Decoder`] turns the bytes of the answer into events; neither knows of
//! HTTP or of signatures. What only one vendor's models know goes into `additionalModelRequestFields`: for a Claude the
//! thinking fields of Anthropic's own format. The answer is an AWS event stream, not server-sent events; its token counts
//! come after the reply's end.
//!
//! Documentation: <https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStream.html>,
//! <https://docs.aws.amazon.com/bedrock/latest/userguide/prompt-caching.html>, `/claude-messages-adaptive-thinking.html`
//! beside it.

mod body;
mod stream;

pub use body::request_body;
pub use stream::Decoder;
