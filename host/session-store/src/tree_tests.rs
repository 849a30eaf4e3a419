use super::*;
use std::path::Path;

/// Indexes a session of entries `id parent`; `p` before the parent makes it a position.
fn index(entries: &[(&str, &str)]) -> EntryIndex {
    let line = |(id, parent): &(&str, &str)| {
        let kind = if parent.starts_with('p') { "position" } else { "message" };
        let parent = match parent.trim_start_matches('p') {
            "" => "null".to_owned(),
            parent => format!("\"{parent}\""),
        };
        format!(
            r#"{{"id":"{id}","parent":{parent},"time":"2026-01-02T03:04:05Z","type":"{kind}","data":{{}}}}{}"#,
            "\n"
        )
    };
    let text: String = entries.iter().map(line).collect();
    EntryIndex::read(Path::new("/s"), text.as_bytes()).unwrap()
}

/// Formats each branch as `from: its own entries`, with a star for the current one.
fn segments(entries: &[(&str, &str)]) -> Vec<String> {
    let index = index(entries);
    let name = |at: Option<usize>| index.id_of(at).map_or("-".to_owned(), |id| id.to_string());
    let shown = |segment: &BranchSegment| {
        let own: String = segment.nodes.iter().map(|at| name(Some(*at))).collect();
        format!("{}:{own}{}", name(segment.from), if segment.is_current { "*" } else { "" })
    };
    index.segments().iter().map(shown).collect()
}

#[test]
fn session_without_branches_is_one_segment() {
    assert_eq!(segments(&[("1", ""), ("2", "1"), ("3", "2")]), ["-:123*"]);
    assert!(segments(&[("1", "p")]).is_empty());
}

#[test]
fn branch_leaves_at_the_entry_gone_back_to() {
    assert_eq!(segments(&[("1", ""), ("2", "1"), ("3", "2"), ("4", "p1"), ("5", "1"), ("6", "5")]), ["-:156*", "1:23"]);
}

#[test]
fn entries_left_by_going_back_are_a_branch() {
    assert_eq!(segments(&[("1", ""), ("2", "1"), ("3", "2"), ("4", "p2")]), ["-:12*", "2:3"]);
    assert_eq!(segments(&[("1", ""), ("2", "1"), ("3", "p")]), ["-:12"]);
}

#[test]
fn nested_branches_and_further_roots_are_found() {
    let entries =
        [("1", ""), ("2", "1"), ("3", "2"), ("4", "p2"), ("5", "2"), ("6", "p1"), ("7", "1"), ("8", "p"), ("9", "")];
    assert_eq!(segments(&entries), ["-:9*", "-:123", "2:5", "1:7"]);
}

#[test]
fn entry_whose_parent_became_a_position_is_on_a_branch() {
    // Entry 4 is lost; it followed the position.
    assert_eq!(segments(&[("1", ""), ("2", "1"), ("3", "p1"), ("5", "4")]), ["-:135*", "1:2"]);
}

proptest::proptest! {
    #[test]
    fn every_entry_is_in_one_segment_after_its_parent(links in proptest::collection::vec((proptest::num::u8::ANY, proptest::bool::ANY), 1..60)) {
        let names: Vec<String> = (1..=links.len()).map(crate::id::testing::name).collect();
        let parents: Vec<String> = links.iter().enumerate().map(|(at, (parent, is_position))| {
            let parent = if at == 0 { String::new() } else { names[usize::from(*parent) % at].clone() };
            format!("{}{parent}", if *is_position { "p" } else { "" })
        }).collect();
        let entries: Vec<(&str, &str)> = names.iter().map(String::as_str).zip(parents.iter().map(String::as_str)).collect();
        let index = index(&entries);
        let segments = index.segments();
        let mut seen = vec![0; index.nodes.len()];
        for segment in &segments {
            let mut before = segment.from;
            for at in &segment.nodes {
                proptest::prop_assert_eq!(index.nodes[*at].parent, before);
                seen[*at] += 1;
                before = Some(*at);
            }
        }
        for (at, node) in index.nodes.iter().enumerate() {
            proptest::prop_assert!(seen[at] == 1 || (seen[at] == 0 && node.kind == EntryKind::Position));
        }
    }
}
