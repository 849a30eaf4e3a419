use super::*;

const HEADER: &str = r#"{"type":"session","version":1,"id":"x","workspace":"/w","created":"2026-01-02T03:04:05Z"}"#;

fn index(lines: &[&str]) -> EntryIndex {
    let text: String = lines.iter().flat_map(|line| [line, "\n"]).collect();
    EntryIndex::read(Path::new("/s"), text.as_bytes()).unwrap()
}

fn entry(id: &str, parent: &str) -> String {
    format!(r#"{{"id":"{id}","parent":"{parent}","time":"2026-01-02T03:04:05Z","type":"message","data":0}}"#)
}

/// An entry of another type, with these further fields.
fn other(id: &str, parent: &str, kind: &str, fields: &str) -> String {
    format!(r#"{{"id":"{id}","parent":{parent},"time":"2026-01-02T03:04:05Z",{fields}"type":"{kind}","data":{{}}}}"#)
}

/// The ids of the conversation's current branch.
fn branch(index: &EntryIndex) -> String {
    index.branch(index.position()).iter().map(|node| node.id.to_string()).collect::<Vec<_>>().join(" ")
}

#[test]
fn branch_ends_at_the_last_entry_without_siblings() {
    let root = r#"{"id":"1","parent":null,"type":"message","data":0}"#;
    let index = index(&[HEADER, root, &entry("2", "1"), &entry("3", "2"), &entry("4", "1"), &entry("5", "4")]);
    assert_eq!(branch(&index), "1 4 5");
    assert_eq!((index.tail, index.bad_lines.count()), (Tail::None, 0));
}

#[test]
fn followers_of_a_broken_line_follow_the_entry_before_it() {
    // Line 4 was entry 3. Entry 4 is another branch, and no ancestor of 5.
    let lines = [HEADER, &entry("1", "0"), &entry("2", "1"), "broken", &entry("4", "1"), &entry("5", "3")];
    let index = index(&lines);
    assert_eq!(branch(&index), "1 2 5");
    assert_eq!(index.bad_lines.count(), 1);
    assert_eq!(index.bad_lines.first()[0].line, 4);
}

#[test]
fn entry_without_ancestors_becomes_a_root() {
    let index = index(&[HEADER, "broken", &entry("2", "1"), &entry("3", "2")]);
    assert_eq!(branch(&index), "2 3");
}

#[test]
fn entries_with_the_same_id_are_all_kept() {
    let lines = [HEADER, &entry("1", "0"), &entry("2", "1"), &entry("2", "2"), &entry("4", "3")];
    assert_eq!(branch(&index(&lines)), "1 2 2 4");
}

#[test]
fn parent_after_its_child_makes_no_cycle() {
    let lines = [HEADER, &entry("1", "2"), &entry("2", "3"), &entry("3", "3")];
    assert_eq!(branch(&index(&lines)), "1 2 3");
}

#[test]
fn entry_of_unknown_type_links_the_tree() {
    let unknown = r#"{"id":"2","parent":"1","time":"2026-01-02T03:04:05Z","type":"label","data":{"text":"a"}}"#;
    let index = index(&[HEADER, &entry("1", "0"), unknown, &entry("3", "2")]);
    assert_eq!(branch(&index), "1 2 3");
    assert_eq!(
        index.nodes.iter().map(|node| node.kind).collect::<Vec<_>>(),
        [EntryKind::Message, EntryKind::Unknown, EntryKind::Message]
    );
}

#[test]
fn blank_lines_are_ignored() {
    let index = index(&[HEADER, "", &entry("1", "0"), " \r"]);
    assert_eq!((branch(&index).as_str(), index.bad_lines.count()), ("1", 0));
}

#[test]
fn session_without_its_header_is_readable() {
    let index = index(&["broken", &entry("1", "0")]);
    assert_eq!(index.header, HeaderState::Broken);
    assert_eq!(branch(&index), "1");
    assert_eq!(index.bad_lines.first()[0].line, 1);
}

#[test]
fn file_without_header_and_entries_is_not_a_session() {
    for text in ["\n", "notes\n", "notes", "\0\0\0", "{}\n{}\n"] {
        let error = EntryIndex::read(Path::new("/s"), text.as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), "`/s` is not a session", "{text:?}");
    }
}

#[test]
fn unsupported_version_error_names_both_versions() {
    let text = "{\"type\":\"session\",\"version\":7}\nwhatever\n";
    let error = EntryIndex::read(Path::new("/s"), text.as_bytes()).unwrap_err();
    assert_eq!(error.to_string(), "session `/s` has format version 7, but this program reads version 1");
}

#[test]
fn many_broken_lines_are_counted_and_few_have_reasons() {
    let text = format!("{HEADER}\n{}", "x\n".repeat(5_000));
    let index = EntryIndex::read(Path::new("/s"), text.as_bytes()).unwrap();
    assert_eq!((index.bad_lines.count(), index.bad_lines.first().len()), (5_000, BadLines::MAX_REASONS));
}

#[test]
fn position_moves_the_conversation() {
    let position = |parent| other("4", parent, "position", "");
    let lines = [HEADER, &entry("1", "0"), &entry("2", "1"), &entry("3", "2")];
    let with = |more: &[&str]| branch(&index(&[&lines[..], more].concat()));
    assert_eq!(with(&[&position("\"1\"")]), "1");
    assert_eq!(with(&[&position("null")]), "");
    assert_eq!(with(&[&position("\"1\""), &entry("5", "1")]), "1 5");
}

#[test]
fn lost_position_or_its_follower_costs_only_itself() {
    let lines = [HEADER, &entry("1", "0"), &entry("2", "1"), &entry("3", "2")];
    let position = other("4", "\"1\"", "position", "");
    let with = |more: &[&str]| branch(&index(&[&lines[..], more].concat()));
    assert_eq!(with(&["broken", &entry("5", "1"), &entry("6", "5")]), "1 5 6");
    assert_eq!(with(&[&position, "broken", &entry("6", "5")]), "1 4 6");
}

#[test]
fn side_entries_do_not_move_the_conversation() {
    let a = |id, parent| other(id, parent, "message", r#""side":"a","#);
    let b = |id, parent| other(id, parent, "message", r#""side":"b","#);
    let lines = [HEADER, &entry("1", "0"), &a("2", "\"1\""), &b("3", "\"1\""), &a("4", "\"2\""), &b("5", "\"3\"")];
    assert_eq!(branch(&index(&lines)), "1");
    let position = other("6", "\"5\"", "position", "");
    let chosen = [&lines[..], &[&position]].concat();
    assert_eq!(branch(&index(&chosen)), "1 3 5");
}

#[test]
fn broken_line_does_not_mix_parallel_branches() {
    let a = |id, parent| other(id, parent, "message", r#""side":"a","#);
    let b = |id, parent| other(id, parent, "message", r#""side":"b","#);
    let lines =
        [HEADER, &entry("1", "0"), &a("2", "\"1\""), &b("3", "\"1\""), "broken", &b("5", "\"3\""), &a("6", "\"4\"")];
    let index = index(&lines);
    let path =
        |id: &str| index.branch(index.find(id.parse().unwrap())).iter().map(|n| n.id.to_string()).collect::<Vec<_>>();
    assert_eq!(path("6"), ["1", "2", "6"]);
    assert_eq!(path("5"), ["1", "3", "5"]);
}
