//! Measures values as JSON.

use std::io;

/// Returns the length of `value` as compact JSON in bytes, without building the text.
pub fn json_bytes(value: &impl serde::Serialize) -> u64 {
    struct Counted(u64);
    impl io::Write for Counted {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len() as u64;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut counted = Counted(0);
    // The writer never fails, and a value that has no JSON form is never sent.
    let _ = serde_json::to_writer(&mut counted, value);
    counted.0
}
