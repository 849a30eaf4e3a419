//! Members of `extra`, which hosts ignore if they do not know them: the check of a plugin names these.

use super::authors::run;
use pinion_tests::{Pinion, guest};
use std::fs;

#[test]
fn check_names_members_of_extra_that_the_schema_does_not_have() {
    let pinion = Pinion::default();
    let mut bytes = fs::read(guest("guide")).unwrap();
    let (known, typed) = (b"mime-type", b"mime-typo");
    let places: Vec<usize> = (0..bytes.len() - known.len()).filter(|at| bytes[*at..].starts_with(known)).collect();
    places.iter().for_each(|at| bytes[*at..*at + typed.len()].copy_from_slice(typed));
    pinion.write("guide.wasm", bytes);
    let checked = run(&pinion, ["plugin", "check", "guide.wasm"]);
    assert!(checked.code == Some(0), "{checked:?}");
    assert!(checked.stdout.contains("`extra.resource.mime-typo` is not known here"), "{checked:?}");
    fs::copy(guest("guide"), pinion.workspace().join("guide.wasm")).unwrap();
    let checked = run(&pinion, ["plugin", "check", "guide.wasm"]);
    assert!(!checked.stdout.contains("is not known here"), "{checked:?}");
}
