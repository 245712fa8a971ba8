//! Which tests one process runs, and in which order processes start.
//!
//! 1. A long test has a process of its own. The other tests of a binary share processes, so that what one of them unpacked serves the next.
//! 2. The longest work starts first, so that none is left over at the end.
//! 3. Tests that mostly wait run beside those that compute.

use super::{
    binaries::{Binary, Listed},
    times::{Time, Times},
};

/// A longer test has a process of its own.
const LONG_SECONDS: f64 = 4.0;
/// Short tests of one binary share processes of about this length.
const SHARED_SECONDS: f64 = 20.0;
/// A test that uses less than this part of its time on processors waits. With others beside it, one that computes gets about half.
const WAITING_PART: f64 = 0.25;

/// What one process runs.
#[derive(Debug)]
pub struct Unit<'b> {
    pub binary: &'b Binary,
    /// Names of tests; `None` for a binary with a main function of its own.
    pub tests: Option<Vec<String>>,
    pub expected: Time,
}

impl Unit<'_> {
    /// Whether it spends most of its time waiting for other programs or a timer.
    pub fn is_waiting(&self) -> bool {
        self.expected.processor_seconds < self.expected.seconds * WAITING_PART
    }
}

/// Units of all tests, the longest first.
pub fn plan<'b>(listed: &'b [(Binary, Listed)], times: &Times) -> Vec<Unit<'b>> {
    let mut units: Vec<Unit> =
        listed.iter().flat_map(|(binary, listed)| of_binary(binary, listed, times)).collect();
    units.sort_by(|one, other| other.expected.seconds.total_cmp(&one.expected.seconds));
    units
}

fn of_binary<'b>(binary: &'b Binary, listed: &Listed, times: &Times) -> Vec<Unit<'b>> {
    let Listed::Harness(names) = listed else {
        let expected = times.expected(&binary.name, &binary.name);
        return vec![Unit { binary, tests: None, expected }];
    };
    let unit = |tests: Vec<String>, expected| Unit { binary, tests: Some(tests), expected };
    let (mut units, mut shared, mut sum) = (Vec::new(), Vec::new(), Time::default());
    for name in names {
        let time = times.expected(&binary.name, name);
        if time.seconds > LONG_SECONDS {
            units.push(unit(vec![name.clone()], time));
            continue;
        }
        shared.push(name.clone());
        sum += time;
        if sum.seconds > SHARED_SECONDS {
            units.push(unit(std::mem::take(&mut shared), std::mem::take(&mut sum)));
        }
    }
    if !shared.is_empty() {
        units.push(unit(shared, sum));
    }
    units
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_test_is_in_one_unit_and_the_longest_comes_first() {
        let binary =
            |name: &str| Binary { name: name.to_owned(), package_folder: "/w".into(), program: "/t".into() };
        let names: Vec<String> = (0..50).map(|number| format!("t{number}")).collect();
        let listed = [(binary("a"), Listed::Harness(names.clone())), (binary("own"), Listed::Own)];
        let mut times = Times::default();
        let time = |seconds, processor_seconds| Time { seconds, processor_seconds };
        times.record("a", "t7", time(9.0, 2.0));
        times.record("own", "own", time(5.0, 2.0));
        (20..40).for_each(|number| times.record("a", &format!("t{number}"), time(3.0, 3.0)));
        let units = plan(&listed, &times);
        let mut planned: Vec<&String> = units.iter().flat_map(|unit| unit.tests.iter().flatten()).collect();
        planned.sort();
        let mut names: Vec<&String> = names.iter().collect();
        names.sort();
        assert_eq!(planned, names);
        let alone = units.iter().find(|unit| unit.tests == Some(vec!["t7".to_owned()]));
        assert!(alone.is_some_and(|unit| unit.expected.seconds > 8.0 && unit.is_waiting()), "{units:?}");
        assert_eq!(units.iter().filter(|unit| unit.tests.is_none()).count(), 1);
        assert!(units.windows(2).all(|pair| pair[0].expected.seconds >= pair[1].expected.seconds));
        assert_eq!(units.len(), 5, "{units:?}");
        assert_eq!(units.iter().filter(|unit| unit.is_waiting()).count(), 1);
    }
}
