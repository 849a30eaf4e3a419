//! Computations whose results WebAssembly leaves to the processor have one result.

use crate::Engine;
use pinion_plugin_limits::EngineLimits;
use wasmtime::{Instance, Module, Store, WasmParams, WasmResults};

/// Returns a module that exports a function of this type and body as `f`.
fn module(signature: &[u8], body: &[u8]) -> Vec<u8> {
    let section = |id: u8, content: &[u8]| {
        let length = u8::try_from(content.len()).unwrap();
        [&[id, length], content].concat()
    };
    let code = [&[1, u8::try_from(body.len() + 2).unwrap(), 0], body, &[0x0b]].concat();
    [
        b"\0asm\x01\0\0\0".to_vec(),
        section(1, &[&[1, 0x60], signature].concat()),
        section(3, &[1, 0]),
        section(7, &[1, 1, b'f', 0, 0]),
        section(10, &code),
    ]
    .concat()
}

fn run<P: WasmParams, R: WasmResults>(bytes: &[u8], parameters: P) -> R {
    let engine = Engine::new(EngineLimits::default()).unwrap();
    let module = Module::new(engine.wasmtime(), bytes).unwrap();
    let mut store = Store::new(engine.wasmtime(), ());
    store.set_fuel(1_000).unwrap();
    store.set_epoch_deadline(1_000);
    let instance = Instance::new(&mut store, &module, &[]).unwrap();
    instance.get_typed_func(&mut store, "f").unwrap().call(&mut store, parameters).unwrap()
}

#[test]
fn results_that_are_no_number_have_the_same_bits() {
    // (func (param f64 f64) (result i64) (i64.reinterpret_f64 (f64.div (local.get 0) (local.get 1))))
    let divided = module(&[2, 0x7c, 0x7c, 1, 0x7e], &[0x20, 0, 0x20, 1, 0xa3, 0xbd]);
    let canonical = 0x7ff8_0000_0000_0000_u64.cast_signed();
    assert_eq!(run::<_, i64>(&divided, (0.0_f64, 0.0_f64)), canonical);
    assert_eq!(run::<_, i64>(&divided, (f64::from_bits(0xfff8_0000_0000_1234), 1.0_f64)), canonical);
}

#[test]
fn relaxed_conversion_has_one_result() {
    // (func (param f32) (result i32)
    //   (i32x4.extract_lane 0 (i32x4.relaxed_trunc_f32x4_s (f32x4.splat (local.get 0)))))
    let converted = module(&[1, 0x7d, 1, 0x7f], &[0x20, 0, 0xfd, 0x13, 0xfd, 0x81, 2, 0xfd, 0x1b, 0]);
    assert_eq!(run::<_, i32>(&converted, f32::NAN), 0);
    assert_eq!(run::<_, i32>(&converted, 3e9_f32), i32::MAX);
}
