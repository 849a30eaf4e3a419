//! Models and providers: which one a run uses, with which key, at which address, at which prices.

mod environment;
pub(crate) mod exchanges;
pub(crate) mod info;
mod prices;
mod select;

pub(crate) use self::select::Chosen;
