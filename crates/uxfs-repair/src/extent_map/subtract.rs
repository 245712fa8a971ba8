//! Runs of blocks without others.

use std::ops::Range;

/// Gives the parts of a run that none of `taken` has, in order. `taken` are in order and do not overlap.
pub(crate) fn subtract(run: Range<u64>, taken: &[Range<u64>], mut add: impl FnMut(Range<u64>)) {
    let mut start = run.start;
    let first = taken.partition_point(|taken| taken.end <= run.start);
    for taken in taken.iter().skip(first).take_while(|taken| taken.start < run.end) {
        if start < taken.start {
            add(start..taken.start);
        }
        start = start.max(taken.end);
    }
    if start < run.end {
        add(start..run.end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_are_left() {
        let left = |taken: &[Range<u64>]| {
            let mut parts = Vec::new();
            subtract(100..110, taken, |part| parts.push((part.start, part.end)));
            parts
        };
        assert_eq!(left(&[]), [(100, 110)]);
        assert_eq!(left(&[0..100, 103..105, 109..200]), [(100, 103), (105, 109)]);
        assert_eq!(left(&[90..101, 300..301]), [(101, 110)]);
        assert_eq!(left(&[0..99, 100..1000]), []);
    }
}
