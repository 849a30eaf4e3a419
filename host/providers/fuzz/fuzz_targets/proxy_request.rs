//! Fuzzes the requests to a proxy server: a valid one is unchanged after a round trip.

#![no_main]

use pinion_providers::proxy::{read_request, request_body};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Ok(request) = read_request(data) {
        let body = request_body(&request).unwrap();
        assert_eq!(request_body(&read_request(&body).unwrap()).unwrap(), body);
    }
});
