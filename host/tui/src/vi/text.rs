//! Motions of vi. Places are numbers of grapheme clusters.

use unicode_segmentation::UnicodeSegmentation as _;

/// The key of a command, with the character that some keys take, as in `fx`.
pub(super) type ViKey = (char, Option<char>);

/// The end of a motion, and how much of the text an operator takes on the way there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MotionTarget {
    /// Up to the place.
    Before(usize),
    /// The place included.
    Through(usize),
    /// All lines on the way.
    Lines(usize),
}

impl MotionTarget {
    pub(super) fn cluster_index(self) -> usize {
        let (Self::Before(place) | Self::Through(place) | Self::Lines(place)) = self;
        place
    }
}

/// A text in grapheme clusters.
pub(super) struct GraphemeText<'a> {
    clusters: Vec<(usize, &'a str)>,
    bytes: usize,
}

impl<'a> GraphemeText<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { clusters: text.grapheme_indices(true).collect(), bytes: text.len() }
    }

    pub(super) fn len(&self) -> usize {
        self.clusters.len()
    }

    /// Returns the cluster at a place; an empty one at the end.
    pub(super) fn at(&self, place: usize) -> &'a str {
        self.clusters.get(place).map_or("", |(_, cluster)| *cluster)
    }

    /// Returns the offset of a place.
    pub(super) fn offset(&self, place: usize) -> usize {
        self.clusters.get(place).map_or(self.bytes, |(offset, _)| *offset)
    }

    /// Returns the place of an offset.
    pub(super) fn cluster_at(&self, offset: usize) -> usize {
        self.clusters.partition_point(|(start, _)| *start < offset)
    }

    pub(super) fn line_start(&self, place: usize) -> usize {
        (0..place).rfind(|before| self.at(*before) == "\n").map_or(0, |newline| newline + 1)
    }

    /// Returns the place of the newline, or the end of the text.
    pub(super) fn line_end(&self, place: usize) -> usize {
        (place..self.len()).find(|after| self.at(*after) == "\n").unwrap_or(self.len())
    }

    /// Returns the nearest place on the line where a command finds the cursor: never behind its last cluster.
    pub(super) fn within_line(&self, place: usize) -> usize {
        place.min(self.line_end(place).saturating_sub(1)).max(self.line_start(place))
    }

    /// Returns the place of the first cluster of the line that is not a blank.
    pub(super) fn first_word(&self, place: usize) -> usize {
        let (start, end) = (self.line_start(place), self.line_end(place));
        (start..end).find(|place| self.class(*place, false) != Class::Blank).unwrap_or(end)
    }

    /// Returns the places of the lines from one place to another, with their newlines.
    pub(super) fn lines(&self, from: usize, to: usize) -> std::ops::Range<usize> {
        let (first, last) = (from.min(to), from.max(to));
        self.line_start(first)..(self.line_end(last) + 1).min(self.len())
    }

    /// Returns the beginning of the line that is this many below; `None` if there are fewer.
    pub(super) fn below(&self, place: usize, count: usize) -> Option<usize> {
        (0..count).try_fold(self.line_start(place), |start, _| {
            let end = self.line_end(start);
            (end < self.len()).then_some(end + 1)
        })
    }

    fn above(&self, place: usize, count: usize) -> Option<usize> {
        (0..count).try_fold(self.line_start(place), |start, _| Some(self.line_start(start.checked_sub(1)?)))
    }

    pub(super) fn class(&self, place: usize, is_big: bool) -> Class {
        match self.at(place).chars().next() {
            None => Class::Blank,
            Some(c) if c.is_whitespace() => Class::Blank,
            Some(c) if is_big || c.is_alphanumeric() || c == '_' => Class::Word,
            Some(_) => Class::Sign,
        }
    }

    /// Returns the target of a motion.
    pub(super) fn motion(&self, from: usize, (key, with): ViKey, count: Option<usize>) -> Option<MotionTarget> {
        let times = count.unwrap_or(1);
        let is_big = key.is_ascii_uppercase();
        let repeated = |step: &dyn Fn(usize) -> usize| (0..times).fold(from, |place, _| step(place));
        Some(match (key, with) {
            ('h', _) => MotionTarget::Before(from.saturating_sub(times).max(self.line_start(from))),
            ('l' | ' ', _) => MotionTarget::Before((from + times).min(self.line_end(from))),
            ('j', _) => MotionTarget::Lines(self.below(from, times)?),
            ('k', _) => MotionTarget::Lines(self.above(from, times)?),
            ('w' | 'W', _) => MotionTarget::Before(repeated(&|place| self.next_word(place, is_big))),
            ('b' | 'B', _) => MotionTarget::Before(repeated(&|place| self.word_before(place, is_big))),
            ('e' | 'E', _) => MotionTarget::Through(repeated(&|place| self.word_end(place + 1, is_big))),
            ('0', _) => MotionTarget::Before(self.line_start(from)),
            ('^' | '_', _) => MotionTarget::Before(self.first_word(from)),
            ('$', _) => MotionTarget::Before(self.line_end(self.below(from, times - 1)?.max(from))),
            ('G', _) => MotionTarget::Lines(self.line(count.unwrap_or(usize::MAX))),
            ('g', Some('g')) => MotionTarget::Lines(self.line(times)),
            ('f' | 'F' | 't' | 'T', Some(c)) => self.find(from, key, c, times)?,
            ('%', _) => MotionTarget::Through(self.matching(from)?),
            _ => return None,
        })
    }

    /// Returns the first word of the line with this number, or of the last one.
    fn line(&self, number: usize) -> usize {
        let mut start = 0;
        for _ in 1..number {
            let Some(below) = self.below(start, 1) else { break };
            start = below;
        }
        self.first_word(start)
    }

    fn next_word(&self, mut place: usize, is_big: bool) -> usize {
        let class = self.class(place, is_big);
        while class != Class::Blank && place < self.len() && self.class(place, is_big) == class {
            place += 1;
        }
        // An empty line is a word.
        while place < self.len() && self.class(place, is_big) == Class::Blank {
            place += 1;
            if self.at(place) == "\n" && self.at(place - 1) == "\n" {
                break;
            }
        }
        place
    }

    fn word_before(&self, mut place: usize, is_big: bool) -> usize {
        while place > 0 && self.class(place - 1, is_big) == Class::Blank {
            place -= 1;
            if self.at(place) == "\n" && (place == 0 || self.at(place - 1) == "\n") {
                return place;
            }
        }
        let class = place.checked_sub(1).map(|before| self.class(before, is_big));
        while place > 0 && Some(self.class(place - 1, is_big)) == class {
            place -= 1;
        }
        place
    }

    /// Returns the last cluster of the word at or behind a place.
    pub(super) fn word_end(&self, mut place: usize, is_big: bool) -> usize {
        while place < self.len() && self.class(place, is_big) == Class::Blank {
            place += 1;
        }
        let class = self.class(place, is_big);
        while place + 1 < self.len() && self.class(place + 1, is_big) == class {
            place += 1;
        }
        place.min(self.len().saturating_sub(1))
    }

    fn find(&self, from: usize, key: char, c: char, times: usize) -> Option<MotionTarget> {
        let is_found = |place: &usize| self.at(*place).chars().eq([c]);
        Some(match key {
            'f' | 't' => {
                let place = (from + 1..self.line_end(from)).filter(is_found).nth(times - 1)?;
                MotionTarget::Through(if key == 't' { place - 1 } else { place })
            }
            _ => {
                let place = (self.line_start(from)..from).rev().filter(is_found).nth(times - 1)?;
                MotionTarget::Before(if key == 'T' { place + 1 } else { place })
            }
        })
    }

    /// Returns the bracket that belongs to the first one at or behind a place on its line.
    fn matching(&self, from: usize) -> Option<usize> {
        let pair =
            |cluster: &str| ["()", "[]", "{}"].into_iter().find(|pair| !cluster.is_empty() && pair.contains(cluster));
        let (place, pair) = (from..self.line_end(from)).find_map(|place| Some((place, pair(self.at(place))?)))?;
        let (open, close) = pair.split_at(1);
        match self.at(place) == open {
            true => self.close(place + 1, open, close),
            false => self.open(place, open, close),
        }
    }

    /// Returns the bracket that closes the pair around a place.
    pub(super) fn close(&self, from: usize, open: &str, close: &str) -> Option<usize> {
        unmatched((from..self.len()).map(|place| (place, self.at(place))), close, open)
    }

    /// Returns the bracket before a place that opens the pair around it.
    pub(super) fn open(&self, from: usize, open: &str, close: &str) -> Option<usize> {
        unmatched((0..from).rev().map(|place| (place, self.at(place))), open, close)
    }
}

/// Returns the first place with a bracket whose partner is not among the places before it.
fn unmatched<'a>(places: impl Iterator<Item = (usize, &'a str)>, bracket: &str, partner: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (place, cluster) in places {
        if cluster == partner {
            depth += 1;
        } else if cluster == bracket {
            match depth.checked_sub(1) {
                Some(less) => depth = less,
                None => return Some(place),
            }
        }
    }
    None
}

/// Kinds of clusters that make words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    Blank,
    Word,
    Sign,
}
