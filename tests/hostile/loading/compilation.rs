//! Components that take long to compile.

use super::*;
use pinion_agent::tool::ToolError;
use pinion_plugin_runtime::Notice;

fn leb(mut value: usize, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(u8::try_from(value & 0x7f).unwrap() | 0x80);
        value >>= 7;
    }
    out.push(u8::try_from(value).unwrap());
}

fn section(id: u8, content: &[u8]) -> Vec<u8> {
    let mut section = vec![id];
    leb(content.len(), &mut section);
    section.extend_from_slice(content);
    section
}

/// Returns a module with one function of nested loops around many variables. A naive compiler keeps a value for each
/// variable at the head of each loop.
fn compile_bomb(loops: usize, variables: usize) -> Vec<u8> {
    let mut body = vec![1];
    leb(variables, &mut body);
    body.push(0x7f);
    (0..loops).for_each(|_| body.extend([0x03, 0x40]));
    for variable in 0..variables {
        body.push(0x20);
        leb(variable, &mut body);
        body.extend([0x41, 1, 0x6a, 0x21]);
        leb(variable, &mut body);
    }
    (0..loops).for_each(|_| body.extend([0x20, 0, 0x0d, 0, 0x0b]));
    body.push(0x0b);
    let mut code = vec![1];
    leb(body.len(), &mut code);
    code.extend(body);
    let header = b"\0asm\x01\0\0\0".to_vec();
    [header, section(1, &[1, 0x60, 0, 0]), section(3, &[1, 0]), section(10, &code)].concat()
}

/// Returns the guest `echo` with an additional unused module, which is compiled nevertheless.
fn with_module(module: &[u8]) -> Vec<u8> {
    [std::fs::read(guest("echo")).unwrap(), section(1, module)].concat()
}

#[test]
fn expensive_component_is_rejected() {
    let pinion = Pinion::cold();
    let file = pinion.write("bomb.wasm", with_module(&compile_bomb(20_000, 2_000)));
    pinion.config("[engine.limits]\ncompile-seconds = 5\n");
    let ended = Command::new("timeout")
        .arg("100")
        .args([pinion.command([""]).get_program(), "plugin".as_ref(), "check".as_ref(), file.as_ref()])
        .current_dir(pinion.workspace())
        .env("PINION_HOME", pinion.home())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.contains("compiling it takes more than") && said.contains("hint: raise `compile-"), "{said}");
    assert!(said.contains("in [engine.limits] of the config"), "{said}");
}

/// Removes the compiled code from a cache and keeps the descriptions of plugins.
fn forget_code(cache: &Path) {
    let entries = std::fs::read_dir(cache).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|entry| entry.extension().is_none()).for_each(|entry| std::fs::remove_file(entry).unwrap());
}

/// `cat` reads the component and waits for more, without end.
#[tokio::test(flavor = "multi_thread")]
async fn hanging_compile_is_announced_and_delays_nothing_else() {
    let directory = TempDir::new().unwrap();
    let cache = directory.path().join("cache");
    let builder = || SandboxBuilder::default().cache(&cache);
    drop(builder().guest("fetcher").build().await);
    forget_code(&cache);
    drop(builder().guest("echo").build().await);
    let hanging = builder().compiler("cat", &[]).guest("fetcher").guest("echo").trust("echo");
    let sandbox = tokio::time::timeout(SOON, hanging.build()).await.expect("the start waits for the compiler");
    let (token, progress) = (CancellationToken::new(), Progress::default());
    let call = sandbox.call_with("fetch", json!({ "requests": [] }), &progress, token.clone());
    let abort = async {
        let is_compiling = |notice: &Notice| matches!(notice.event, NoticeEvent::Compiling);
        until("the compile is announced", || sandbox.notices().iter().any(is_compiling)).await;
        let notice = sandbox.notices().into_iter().find(is_compiling).unwrap();
        assert_eq!(notice.plugin, "fetcher");
        assert_eq!(sandbox.text("echo", json!({ "message": "here" })).await, "here");
        token.cancel();
    };
    let ((result, _), ()) = tokio::time::timeout(LOADED, async { tokio::join!(call, abort) }).await.unwrap();
    assert!(matches!(result, Err(ToolError::Cancelled { .. })), "{result:?}");
}

#[test]
fn component_compiled_in_another_process_works() {
    let pinion = Pinion::cold();
    let file = pinion.write("fine.wasm", with_module(&compile_bomb(3, 3)));
    let ended = pinion.run(["plugin", "check", file.to_str().unwrap()]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

/// Returns the entries of a cache that hold code: of components, and the one with functions that components share.
fn code_in(cache: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(cache).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|entry| entry.is_file() && entry.extension().is_none()).collect()
}

/// Checks components of more than 4 MiB, which differ in one function.
#[test]
fn large_components_share_functions_whose_seal_holds() {
    let pinion = Pinion::cold();
    let padding = section(0, &[&[1, b'x'][..], &vec![0; 5 << 20]].concat());
    let check = |variables: usize| {
        let bytes = [with_module(&compile_bomb(3, variables)), padding.clone()].concat();
        let file = pinion.write(&format!("large-{variables}.wasm"), bytes);
        let ended = pinion.run(["plugin", "check", file.to_str().unwrap()]);
        assert_eq!(ended.code, Some(0), "{ended:?}");
    };
    check(3);
    let cache = pinion.home().join("cache/components");
    assert_eq!(code_in(&cache).len(), 2);
    check(4);
    let entries = code_in(&cache);
    assert_eq!(entries.len(), 3);
    for entry in entries {
        let mut bytes = std::fs::read(&entry).unwrap();
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        std::fs::write(&entry, bytes).unwrap();
    }
    check(5);
    assert_eq!(code_in(&cache).len(), 4);
}

#[test]
fn signal_ends_a_compilation_and_its_process() {
    let pinion = Pinion::cold();
    let file = pinion.write("bomb.wasm", with_module(&compile_bomb(20_000, 2_000)));
    let status = interrupted_when(&pinion, &["plugin", "check", file.to_str().unwrap()], Signal::INT, has_child);
    assert_eq!(status.code(), Some(130));
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_component_without_compiler_is_rejected_at_once() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("bomb.wasm");
    std::fs::write(&file, with_module(&compile_bomb(20_000, 2_000))).unwrap();
    let builder = SandboxBuilder::default().file(file).guest("echo").trust("echo");
    let sandbox = tokio::time::timeout(SOON, builder.build()).await.unwrap();
    assert!(sandbox.runtime.problems()[0].1.contains("would take too long"), "{:?}", sandbox.runtime.problems());
    assert_eq!(sandbox.text("echo", json!({ "message": "here" })).await, "here");
}

#[tokio::test(flavor = "multi_thread")]
async fn oversized_component_is_rejected_before_compilation() {
    let nested = (0..40)
        .fold(b"\0asm\x0d\0\x01\0".to_vec(), |inner, _| [b"\0asm\x0d\0\x01\0".to_vec(), section(4, &inner)].concat());
    let many = |count: usize| (0..count).flat_map(|_| section(1, b"\0asm\x01\0\0\0")).collect::<Vec<u8>>();
    let echo = std::fs::read(guest("echo")).unwrap();
    let cases = [
        ("levels", [echo.clone(), section(4, &nested)].concat()),
        ("modules", [echo.clone(), many(600)].concat()),
        ("sections", [echo.clone(), section(0, &[1, b'x']).repeat(200_000)].concat()),
        ("one function", with_module(&compile_bomb(400_000, 2))),
    ];
    let directory = TempDir::new().unwrap();
    for (what, bytes) in cases {
        let file = directory.path().join("large.wasm");
        std::fs::write(&file, bytes).unwrap();
        let sandbox = tokio::time::timeout(SOON, SandboxBuilder::default().file(file).build()).await.unwrap();
        let problem = sandbox.runtime.problems()[0].1.clone();
        assert!(problem.contains(what) && problem.contains("limit of loading"), "{what}: {problem}");
    }
}
