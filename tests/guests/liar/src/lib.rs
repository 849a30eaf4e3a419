//! Returns bytes that its caller chooses as if they were values of the contract.
//!
//! The SDK provides the exports, except for the results of `call-tool` and `run-command`: these are a piece of memory
//! with the content that the input sets.

use pinion_plugin_sdk::Adapter;
use pinion_plugin_sdk::prelude::*;

/// Bytes of memory for one result.
const SIZE: usize = 4096;
/// The upper half of a word that stands for an address in that memory. The lower half is the offset.
const MARK: u32 = 0xa5a5;

struct Liar;

impl Plugin for Liar {
    fn tools() -> Vec<Tool> {
        vec![Tool::new("lie", "Returns these bytes.", |_: Lie, _| Ok(""))]
    }

    fn commands() -> Vec<Command> {
        vec![Command::new("lie", "Returns these bytes", |_: &str, _| Ok(Vec::new()))]
    }
}

#[derive(Deserialize, JsonSchema)]
#[allow(dead_code, reason = "read without the SDK")]
struct Lie {
    /// In hexadecimal.
    bytes: String,
}

/// Aligned for any value.
static mut MEMORY: [u64; SIZE / 8] = [0; SIZE / 8];

/// Fills the memory from the digits in a text, and returns its address.
fn filled(text: &[u8]) -> *mut u8 {
    let digits: Vec<u8> =
        text.iter().filter_map(|byte| (*byte as char).to_digit(16)).map(|digit| digit as u8).collect();
    let memory = &raw mut MEMORY;
    let address = memory.cast::<u8>();
    for (at, pair) in digits.chunks_exact(2).take(SIZE).enumerate() {
        // Within the memory, which only this call uses.
        unsafe { address.add(at).write(pair[0] << 4 | pair[1]) };
    }
    for at in (0..SIZE).step_by(4) {
        let word = unsafe { address.add(at).cast::<u32>() };
        let value = unsafe { word.read() };
        if value >> 16 == MARK {
            unsafe { word.write(address as u32 + (value & 0xffff)) };
        }
    }
    address
}

/// The functions that the macros of the SDK call, in its layout.
pub mod lying {
    /// The interface `tools`.
    pub mod tools {
        pub mod exports {
            pub mod pinion {
                pub mod plugin {
                    pub mod tools {
                        pub use pinion_plugin_sdk::bindings::tools::exports::pinion::plugin::tools::*;

                        #[allow(clippy::too_many_arguments, reason = "the flattened parameters")]
                        pub unsafe fn _export_call_tool_cabi<T>(
                            _: *mut u8,
                            _: usize,
                            _: *mut u8,
                            _: usize,
                            _: *mut u8,
                            _: usize,
                            _: i32,
                            _: i32,
                            _: *mut u8,
                            _: usize,
                            _: *mut u8,
                            _: usize,
                            input: *mut u8,
                            length: usize,
                        ) -> *mut u8 {
                            let key = br#"{"bytes":""#.len();
                            let input = unsafe { std::slice::from_raw_parts(input, length) };
                            crate::filled(&input[key..])
                        }

                        pub unsafe fn __post_return_call_tool<T>(_: *mut u8) {}
                    }
                }
            }
        }
    }

    /// The interface `commands`.
    pub mod commands {
        pub mod exports {
            pub mod pinion {
                pub mod plugin {
                    pub mod commands {
                        pub use pinion_plugin_sdk::bindings::commands::exports::pinion::plugin::commands::*;

                        #[allow(clippy::too_many_arguments, reason = "the flattened parameters")]
                        pub unsafe fn _export_run_command_cabi<T>(
                            _: *mut u8,
                            _: usize,
                            _: *mut u8,
                            _: usize,
                            _: *mut u8,
                            _: usize,
                            _: i32,
                            _: i32,
                            _: *mut u8,
                            _: usize,
                            _: *mut u8,
                            _: usize,
                            input: *mut u8,
                            length: usize,
                        ) -> *mut u8 {
                            crate::filled(unsafe { std::slice::from_raw_parts(input, length) })
                        }

                        pub unsafe fn __post_return_run_command<T>(_: *mut u8) {}
                    }
                }
            }
        }
    }
}

#[allow(non_camel_case_types, reason = "as in the SDK")]
type liar = Adapter<Liar>;

pinion_plugin_sdk::bindings::tools::__export_tools!(liar with_types_in crate::lying::tools);
pinion_plugin_sdk::bindings::commands::__export_commands!(liar with_types_in crate::lying::commands);

const JSON: &str = r#"{"manifest":1,"api":"0.1.0","name":"liar","version":"0.1.0","description":"lies"}"#;

#[used]
#[cfg_attr(target_arch = "wasm32", unsafe(link_section = "pinion:manifest"))]
static MANIFEST: [u8; JSON.len()] = {
    let mut bytes = [0; JSON.len()];
    bytes.copy_from_slice(JSON.as_bytes());
    bytes
};
