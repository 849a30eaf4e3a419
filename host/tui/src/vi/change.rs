//! Commands of vi that change or copy text.

use crate::composer::Composer;
use crate::vi::command::Command;
use crate::vi::text::{Class, GraphemeText, MotionTarget};
use crate::vi::{Insertion, Mode, RepeatableChange, Vi};
use std::ops::Range;
use unicode_segmentation::UnicodeSegmentation as _;

/// Keys that stand for an operator with its motion.
const SHORT: &[(char, char, char)] = &[
    ('x', 'd', 'l'),
    ('X', 'd', 'h'),
    ('D', 'd', '$'),
    ('s', 'c', 'l'),
    ('S', 'c', 'c'),
    ('C', 'c', '$'),
    ('Y', 'y', 'y'),
];

/// A part of the message that an operator takes, in offsets.
#[derive(Debug)]
pub(super) struct OperatorSpan {
    pub(super) range: Range<usize>,
    pub(super) is_lines: bool,
}

impl Vi {
    /// Runs a command of the normal mode.
    pub(super) fn command(&mut self, command: Command, keys: String, composer: &mut Composer) {
        let short = SHORT.iter().find(|(key, ..)| *key == command.key.0 && command.operator.is_none());
        let command = short.map_or(command, |(_, operator, motion)| Command {
            operator: Some(*operator),
            key: (*motion, None),
            ..command
        });
        let times = command.count.unwrap_or(1);
        let undo = composer.undo_depth();
        if let Some(operator) = command.operator {
            let Some(span) = self.span(operator, command, composer) else { return };
            self.operate(operator, span, composer);
            return self.changed(keys, operator != 'y', undo, composer);
        }
        match command.key {
            ('j', _) => repeat(times, || composer.down()),
            ('k', _) => repeat(times, || composer.move_up()),
            ('.', _) => self.repeat(command.count, composer),
            ('u', _) => (0..times).for_each(|_| composer.undo()),
            ('U', _) => (0..times).for_each(|_| composer.redo()),
            ('v' | 'V', _) => {
                let is_lines = command.key.0 == 'V';
                self.mode = Mode::Visual { anchor: composer.cursor(), is_lines };
            }
            ('i' | 'a' | 'I' | 'A' | 'o' | 'O', _) => {
                begin_text(command.key.0, composer);
                self.mode = Mode::Insert;
                self.changed(keys, true, undo, composer);
            }
            ('p' | 'P' | '~' | 'J' | 'r', _) => {
                match command.key {
                    ('r', Some(c)) => replace(c, times, composer),
                    ('~', _) => swap_case(times, composer),
                    ('J', _) => join(times.max(2) - 1, composer),
                    (key, _) => self.paste_text(key == 'P', times, composer),
                }
                self.changed(keys, true, undo, composer);
            }
            _ => self.moves(command, composer),
        }
    }

    /// Remembers a change for `.`, with the text that follows if keys type text now.
    fn changed(&mut self, keys: String, is_change: bool, undo: usize, composer: &Composer) {
        if self.inserts() {
            self.insertion = Some(Insertion { keys, start: composer.cursor(), length: composer.text().len(), undo });
        } else if is_change {
            self.last = Some(RepeatableChange { keys, inserted: String::new() });
        }
    }

    /// Returns the text that an operator applies to.
    fn span(&mut self, operator: char, command: Command, composer: &Composer) -> Option<OperatorSpan> {
        let command = self.resolved(command, composer)?;
        let text = GraphemeText::new(composer.text());
        let from = text.cluster_at(composer.cursor());
        let of = |places: Range<usize>, is_lines| {
            Some(OperatorSpan { range: text.offset(places.start)..text.offset(places.end), is_lines })
        };
        let (key, with) = command.key;
        if key == operator {
            let count = command.count.unwrap_or(1) - 1;
            let last = (0..=count).rev().find_map(|count| text.below(from, count))?;
            return of(text.lines(from, last), true);
        }
        if let ('i' | 'a', Some(what)) = (key, with) {
            return of(text.object(from, key == 'a', what)?, false);
        }
        // As in vi, a change of a word leaves the blanks behind it.
        let target = match (operator, key) {
            ('c', 'w' | 'W') if text.class(from, key == 'W') != Class::Blank => {
                let ends = 0..command.count.unwrap_or(1) - 1;
                let first = text.word_end(from, key == 'W');
                MotionTarget::Through(ends.fold(first, |end, _| text.word_end(end + 1, key == 'W')))
            }
            _ => text.motion(from, command.key, command.count)?,
        };
        match target {
            MotionTarget::Lines(to) => of(text.lines(from, to), true),
            MotionTarget::Through(to) => of(from.min(to)..(from.max(to) + 1).min(text.len()), false),
            MotionTarget::Before(to) if matches!(key, 'w' | 'W') => of(from..last_of_line(&text, from, to), false),
            MotionTarget::Before(to) => of(from.min(to)..from.max(to), false),
        }
    }

    /// Applies `d`, `c` or `y`.
    pub(super) fn operate(&mut self, operator: char, span: OperatorSpan, composer: &mut Composer) {
        let OperatorSpan { range, is_lines } = span;
        let mut taken = composer.text()[range.clone()].to_owned();
        let has_newline = taken.ends_with('\n');
        if is_lines && !has_newline {
            taken.push('\n');
        }
        self.lines = is_lines.then(|| taken.clone());
        if !taken.is_empty() {
            composer.keep_cut(taken);
        }
        self.mode = if operator == 'c' { Mode::Insert } else { Mode::Normal };
        match (operator, is_lines) {
            ('y', true) => {
                let text = GraphemeText::new(composer.text());
                let start = text.offset(text.line_start(text.cluster_at(composer.cursor())));
                if range.start < start {
                    composer.set_cursor(range.start);
                }
            }
            ('y', false) => composer.set_cursor(range.start),
            ('d', true) => {
                // The last line goes with the newline before it.
                let start = if has_newline { range.start } else { range.start.saturating_sub(1) };
                composer.splice(start..range.end, "");
                composer.set_cursor(range.start);
                let text = GraphemeText::new(composer.text());
                let first = text.offset(text.first_word(text.cluster_at(composer.cursor())));
                composer.set_cursor(first);
            }
            ('c', true) => composer.splice(range.start..range.end - usize::from(has_newline), ""),
            _ if range.is_empty() => composer.set_cursor(range.start),
            _ => composer.splice(range, ""),
        }
    }

    /// Inserts the text that was cut or copied last, behind the cursor or before it; lines below or above its line.
    fn paste_text(&self, is_before: bool, times: usize, composer: &mut Composer) {
        let Some(cut) = composer.latest_cut().map(str::to_owned) else { return };
        let text = GraphemeText::new(composer.text());
        let place = text.cluster_at(composer.cursor());
        let is_lines = self.lines.as_ref() == Some(&cut);
        if !is_lines {
            let to = if is_before { place } else { (place + 1).min(text.line_end(place)) };
            let at = text.offset(to);
            composer.splice(at..at, &cut.repeat(times));
            // On the last character.
            let text = GraphemeText::new(composer.text());
            let last = text.offset(text.cluster_at(composer.cursor()).saturating_sub(1));
            return composer.set_cursor(last);
        }
        let lines = cut.repeat(times);
        let (at, inserted, start) = match is_before {
            true => (text.offset(text.line_start(place)), lines, 0),
            false => (text.offset(text.line_end(place)), format!("\n{}", lines.trim_end_matches('\n')), 1),
        };
        composer.splice(at..at, &inserted);
        composer.set_cursor(at + start);
    }

    /// Replaces the selection by the text that was cut or copied last.
    pub(super) fn put_over(&mut self, span: OperatorSpan, composer: &mut Composer) {
        let Some(cut) = composer.latest_cut().map(str::to_owned) else { return };
        let has_newline = span.is_lines && composer.text()[span.range.clone()].ends_with('\n');
        let inner = if span.is_lines { cut.trim_end_matches('\n') } else { &cut };
        composer.splice(span.range.start..span.range.end - usize::from(has_newline), inner);
        self.mode = Mode::Normal;
    }
}

/// Moves as long as that is possible.
pub(super) fn repeat(times: usize, mut moves: impl FnMut() -> bool) {
    let _ = (0..times).all(|_| moves());
}

/// Returns the end of a motion by words for an operator: the last word of a line ends with it.
fn last_of_line(text: &GraphemeText<'_>, from: usize, to: usize) -> usize {
    let blanks = (from..to).rev().take_while(|place| text.class(*place, false) == Class::Blank).last().unwrap_or(to);
    (blanks..to).find(|place| text.at(*place) == "\n").filter(|newline| *newline > from).unwrap_or(to)
}

/// Moves the cursor to where a command of insertion types, on a new line for `o` and `O`.
fn begin_text(key: char, composer: &mut Composer) {
    let text = GraphemeText::new(composer.text());
    let place = text.cluster_at(composer.cursor());
    let to = match key {
        'a' => (place + 1).min(text.line_end(place)),
        'I' => text.first_word(place),
        'A' | 'o' => text.line_end(place),
        'O' => text.line_start(place),
        _ => place,
    };
    let offset = text.offset(to);
    composer.set_cursor(offset);
    if matches!(key, 'o' | 'O') {
        composer.insert("\n");
    }
    if key == 'O' {
        composer.set_cursor(offset);
    }
}

/// Replaces characters of the line by one, unless there are too few.
fn replace(c: char, times: usize, composer: &mut Composer) {
    let text = GraphemeText::new(composer.text());
    let place = text.cluster_at(composer.cursor());
    if place + times > text.line_end(place) {
        return;
    }
    let (start, end) = (text.offset(place), text.offset(place + times));
    let new = if c == '\n' { c.to_string() } else { c.to_string().repeat(times) };
    composer.splice(start..end, &new);
    if c != '\n' {
        composer.set_cursor(start + new.len() - c.len_utf8());
    }
}

fn swap_case(times: usize, composer: &mut Composer) {
    let text = GraphemeText::new(composer.text());
    let place = text.cluster_at(composer.cursor());
    let range = text.offset(place)..text.offset((place + times).min(text.line_end(place)));
    let swapped = swapped(&composer.text()[range.clone()]);
    if !range.is_empty() {
        composer.splice(range, &swapped);
    }
}

/// Returns a text with small letters as capitals and the other way round.
pub(super) fn swapped(text: &str) -> String {
    let swap = |c: char| match c.is_lowercase() {
        true => c.to_uppercase().collect::<String>(),
        false => c.to_lowercase().collect(),
    };
    text.chars().map(swap).collect()
}

/// Joins this many lines with the one of the cursor, with a blank between two.
pub(super) fn join(times: usize, composer: &mut Composer) {
    for _ in 0..times {
        let text = GraphemeText::new(composer.text());
        let place = text.cluster_at(composer.cursor());
        let newline = text.line_end(place);
        if newline == text.len() {
            return;
        }
        let start = text.offset(newline);
        let next = text.offset(text.first_word(newline + 1));
        let (before, after) = (&composer.text()[..start], &composer.text()[next..]);
        let is_apart = before.is_empty() || before.ends_with([' ', '\t', '\n']);
        let needs_blank = !is_apart && after.graphemes(true).next().is_some_and(|next| next != "\n" && next != ")");
        composer.splice(start..next, if needs_blank { " " } else { "" });
        composer.set_cursor(start);
    }
}
