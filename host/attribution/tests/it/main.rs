//! Tests of the public interface.

mod calibration;
mod causes;
mod requests;
mod session_costs;
