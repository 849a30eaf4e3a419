//! Selections of vi.

use crate::composer::Composer;
use crate::vi::change::{OperatorSpan, join, repeat, swapped};
use crate::vi::command::Command;
use crate::vi::text::GraphemeText;
use crate::vi::{Mode, Vi};
use std::ops::Range;

impl Vi {
    /// Returns the places that are selected, and whether they are lines.
    pub(super) fn selection(&self, text: &GraphemeText<'_>, composer: &Composer) -> Option<(Range<usize>, bool)> {
        let Mode::Visual { anchor, is_lines } = self.mode else { return None };
        // Other keys may have changed the text.
        let (anchor, cursor) = (text.cluster_at(anchor).min(text.len()), text.cluster_at(composer.cursor()));
        let places = match is_lines {
            true => text.lines(anchor, cursor),
            false => anchor.min(cursor)..(anchor.max(cursor) + 1).min(text.len()),
        };
        Some((places, is_lines))
    }

    pub(super) fn leave_selection(&mut self) {
        self.mode = Mode::Normal;
        self.typed.clear();
    }

    /// Runs a command on a selection.
    pub(super) fn select(&mut self, command: Command, composer: &mut Composer) {
        let Mode::Visual { anchor, is_lines } = self.mode else { return };
        let text = GraphemeText::new(composer.text());
        let Some((places, _)) = self.selection(&text, composer) else { return };
        let range = text.offset(places.start)..text.offset(places.end);
        let span = OperatorSpan { range: range.clone(), is_lines };
        let times = command.count.unwrap_or(1);
        match command.key {
            ('v' | 'V', _) if (command.key.0 == 'V') == is_lines => self.leave_selection(),
            ('v' | 'V', _) => self.mode = Mode::Visual { anchor, is_lines: !is_lines },
            ('o', _) => {
                self.mode = Mode::Visual { anchor: composer.cursor(), is_lines };
                composer.set_cursor(anchor);
            }
            ('j', _) => repeat(times, || composer.row(1)),
            ('k', _) => repeat(times, || composer.row(-1)),
            ('i' | 'a', Some(what)) => {
                let cursor = text.cluster_at(composer.cursor());
                let Some(object) = text.object(cursor, command.key.0 == 'a', what).filter(|object| !object.is_empty())
                else {
                    return;
                };
                self.mode = Mode::Visual { anchor: text.offset(object.start), is_lines };
                let last = text.offset(object.end - 1);
                composer.set_cursor(last);
            }
            ('d' | 'x', _) => self.operate('d', span, composer),
            ('c' | 's', _) => self.operate('c', span, composer),
            ('y', _) => self.operate('y', span, composer),
            ('p' | 'P', _) => self.put_over(span, composer),
            ('~' | 'u' | 'U', _) => {
                let selected = &composer.text()[range];
                let new = match command.key.0 {
                    '~' => swapped(selected),
                    'u' => selected.to_lowercase(),
                    _ => selected.to_uppercase(),
                };
                self.replace_selection(span, &new, composer);
            }
            ('r', Some(c)) => {
                let clusters = places.map(|place| text.at(place));
                let new = clusters.map(|old| if old == "\n" { '\n' } else { c }).collect::<String>();
                self.replace_selection(span, &new, composer);
            }
            ('J', _) => {
                let lines = composer.text()[range.clone()].trim_end_matches('\n').matches('\n').count();
                composer.set_cursor(range.start);
                join(lines.max(1), composer);
                self.leave_selection();
            }
            _ => self.moves(command, composer),
        }
    }

    fn replace_selection(&mut self, span: OperatorSpan, new: &str, composer: &mut Composer) {
        let start = span.range.start;
        composer.splice(span.range, new);
        composer.set_cursor(start);
        self.leave_selection();
    }
}
