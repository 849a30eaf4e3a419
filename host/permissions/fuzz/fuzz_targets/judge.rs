//! Fuzzes the parser and the decision; `tests/product/permissions/commands.txt` is a good corpus.

#![no_main]

use pinion_permissions::{Otherwise, ModePolicy, PermissionRules, Scene, judge};
use std::path::Path;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Ok(command) = std::str::from_utf8(data) else { return };
    let home = Some(Path::new("/home/user"));
    let scene = Scene { workspace: Path::new("/w"), directory: Path::new("/w"), home };
    let rules = PermissionRules::built_in(home);
    for otherwise in [Otherwise::Ask, Otherwise::Sandbox] {
        let judgement = judge(command, &scene, &rules, ModePolicy { reads: true, otherwise });
        assert!(judgement.decisive().is_some());
    }
});
