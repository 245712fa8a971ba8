//! Where a change can lie in several places, as an added function whose last line is that above it as well, it is moved: beside a change of
//! the other side where there is one, else down as far as it can go. On the way it is joined with those that it meets. People read one
//! large change more easily than several small ones, and GNU diff and git do the same.

use std::ops::Range;

use super::{super::both::Both, changes::run_end};

/// Steps that may be made for each line: files can be made in which changes go back and forth.
const STEPS_PER_LINE: u64 = 32;

/// Moves the changes of both sides.
pub(super) fn slide(tokens: &Both<Vec<u32>>, marks: &mut Both<Vec<bool>>) {
    let Both { first, second } = marks;
    let of_side = |tokens: &[u32], own: &mut [bool], other: &[bool]| {
        let steps_left = (own.len() as u64).saturating_add(other.len() as u64).saturating_mul(STEPS_PER_LINE);
        Slider { tokens, own, other, steps_left }.run();
    };
    of_side(&tokens.first, first, second);
    of_side(&tokens.second, second, first);
}

/// Changes of one side.
struct Slider<'s> {
    tokens: &'s [u32],
    own: &'s mut [bool],
    /// Marks of the other side.
    other: &'s [bool],
    steps_left: u64,
}

/// A change: lines of the side at hand, and those of the other side that are in the same place.
struct Group {
    own: Range<usize>,
    other: Range<usize>,
}

impl Slider<'_> {
    fn run(mut self) {
        let (mut at, mut beside) = (0, 0);
        while let Some(is_marked) = self.own.get(at) {
            if !is_marked {
                at += 1;
                beside = run_end(self.other, beside) + 1;
                continue;
            }
            let mut group =
                Group { own: at..run_end(self.own, at), other: beside..run_end(self.other, beside) };
            self.settle(&mut group);
            (at, beside) = (group.own.end, group.other.end);
        }
    }

    fn settle(&mut self, group: &mut Group) {
        // Where it ends when it is beside a change of the other side.
        let mut end_beside = None;
        loop {
            let length = group.own.len();
            while self.move_up(group) {}
            if !group.other.is_empty() {
                end_beside = Some(group.own.end);
            }
            while self.move_down(group) {
                if !group.other.is_empty() {
                    end_beside = Some(group.own.end);
                }
            }
            // It became longer: it may go up further.
            if group.own.len() == length {
                break;
            }
            end_beside = None;
        }
        if let Some(end) = end_beside {
            while group.own.end > end && self.move_up(group) {}
        }
    }

    /// Whether another step may be made.
    fn spend(&mut self) -> bool {
        let may_go_on = self.steps_left > 0;
        self.steps_left = self.steps_left.saturating_sub(1);
        may_go_on
    }

    fn looked_at(&mut self, lines: &Range<usize>) {
        self.steps_left = self.steps_left.saturating_sub(lines.len() as u64);
    }

    fn are_equal(&self, one: usize, other: usize) -> bool {
        self.tokens.get(one).is_some_and(|token| self.tokens.get(other) == Some(token))
    }

    fn mark(&mut self, index: usize, is_changed: bool) {
        if let Some(mark) = self.own.get_mut(index) {
            *mark = is_changed;
        }
    }

    /// Moves it by a line.
    fn move_up(&mut self, group: &mut Group) -> bool {
        let (Some(above), Some(last)) = (group.own.start.checked_sub(1), group.own.end.checked_sub(1)) else {
            return false;
        };
        let Some(above_beside) = group.other.start.checked_sub(1) else { return false };
        if !self.are_equal(above, last) || !self.spend() {
            return false;
        }
        self.mark(above, true);
        self.mark(last, false);
        group.own = run_begin(self.own, above)..last;
        group.other = run_begin(self.other, above_beside)..above_beside;
        self.looked_at(&group.other);
        true
    }

    /// Moves it by a line.
    fn move_down(&mut self, group: &mut Group) -> bool {
        let below = group.own.end;
        if !self.are_equal(group.own.start, below) || !self.spend() {
            return false;
        }
        self.mark(group.own.start, false);
        self.mark(below, true);
        group.own = group.own.start + 1..run_end(self.own, below);
        let below_beside = group.other.end + 1;
        group.other = below_beside..run_end(self.other, below_beside);
        self.looked_at(&group.other);
        true
    }
}

/// Where marked lines begin that end before this one.
fn run_begin(marks: &[bool], end: usize) -> usize {
    let before = marks.get(..end).unwrap_or_default();
    before.iter().rposition(|is_marked| !is_marked).map_or(0, |index| index + 1)
}
