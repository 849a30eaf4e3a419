//! HTTP: requests out, answers in, and the meaning of a refusal.

mod classify;
mod exchange;
mod failure;
mod http;
mod image_refusal;
mod proxy;
mod retry_after;

pub(crate) use classify::classify_object;
pub(crate) use exchange::{OpenResponse, exchange};
pub use http::TransportSettings;
pub(crate) use http::{HttpTransport, Outgoing, RawAnswer, reply};
pub(crate) use image_refusal::{refuses_all_images, refuses_image};
pub use proxy::{ChosenProxy, ProxyError, ProxySettings, ProxyUrl};
