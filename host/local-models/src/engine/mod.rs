//! The engine: quantized transformers on the CPU, with the matrix products of `candle`.

mod attention;
mod load;
mod transformer;
mod weights;

pub use load::load_model;
