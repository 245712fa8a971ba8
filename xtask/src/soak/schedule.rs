//! Which laboratory comes next, and how much its round does.
//!
//! The first turn shrinks so that every laboratory runs once, also on a machine that is slower than the table's. Later turns run what is
//! worth its preparation.

use std::time::Duration;

/// Rounds that a short laboratory may be ahead of the others while the last minutes are too few for these.
const MOST_AHEAD: u32 = 2;
/// The part of the rest of the time that a turn is planned to take.
const PLANNED: f64 = 0.9;
/// The least part of its usual work that a round does in the first turn, and later.
const LEAST_SCALES: (f64, f64) = (0.1, 0.5);
/// How much slower or faster than the table a machine is taken to be, whatever it shows.
const SPEEDS: (f64, f64) = (0.2, 10.0);

/// Expected seconds of a round: what its preparation takes, and its work at full scale.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    pub preparation: f64,
    pub work: f64,
}

impl Cost {
    /// Seconds of a round with this part of the work.
    pub fn seconds(self, scale: f64) -> f64 {
        self.preparation + self.work * scale
    }
}

/// A round that is to be run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Plan {
    pub index: usize,
    /// The part of its usual work.
    pub scale: f64,
    pub expected: Duration,
}

/// A laboratory of which rounds have run or not.
#[derive(Debug)]
struct Record {
    cost: Cost,
    rounds: u32,
    /// Time of its last round beside what the table expects.
    slowness: Option<f64>,
}

/// What each laboratory has done, and how long its rounds take here.
#[derive(Debug)]
pub struct Schedule {
    total: Duration,
    records: Vec<Record>,
    /// Seconds of all rounds, and what the table expects.
    took: f64,
    expected: f64,
}

impl Schedule {
    /// Nothing has run yet.
    pub fn new(total: Duration, costs: impl IntoIterator<Item = Cost>) -> Self {
        let record = |cost| Record { cost, rounds: 0, slowness: None };
        Self { total, records: costs.into_iter().map(record).collect(), took: 0.0, expected: 0.0 }
    }

    /// Of the laboratories whose next round should end in time, that with the fewest rounds.
    pub fn next(&self, elapsed: Duration) -> Option<Plan> {
        let fewest = self.records.iter().map(|record| record.rounds).min()?;
        let rest = self.total.saturating_sub(elapsed).as_secs_f64();
        let scale = self.scale(rest, fewest);
        let plan = |index: usize| {
            let record = &self.records[index];
            let seconds = record.cost.seconds(scale) * self.slowness(record);
            let is_planned = record.rounds <= fewest + MOST_AHEAD && seconds <= rest;
            is_planned.then(|| Plan { index, scale, expected: Duration::from_secs_f64(seconds) })
        };
        let plans = (0..self.records.len()).filter_map(plan);
        plans.min_by_key(|plan| self.records[plan.index].rounds)
    }

    /// The scale at which the rest of the turn fits into the rest of the time; at most 1.
    fn scale(&self, rest: f64, fewest: u32) -> f64 {
        let pending = || self.records.iter().filter(|record| record.rounds == fewest);
        let sum = |part: fn(&Cost) -> f64| -> f64 {
            pending().map(|record| part(&record.cost) * self.slowness(record)).sum()
        };
        let left = rest * PLANNED - sum(|cost| cost.preparation);
        let least = if fewest == 0 { LEAST_SCALES.0 } else { LEAST_SCALES.1 };
        (left / sum(|cost| cost.work).max(1.0)).clamp(least, 1.0)
    }

    /// Of the laboratory, else of all that have run.
    fn slowness(&self, record: &Record) -> f64 {
        let of_all = if self.expected > 0.0 { self.took / self.expected } else { 1.0 };
        record.slowness.unwrap_or(of_all).clamp(SPEEDS.0, SPEEDS.1)
    }

    /// A round has ended.
    pub fn record(&mut self, plan: &Plan, took: Duration) {
        let record = &mut self.records[plan.index];
        let expected = record.cost.seconds(plan.scale).max(1.0);
        record.rounds += 1;
        record.slowness = Some(took.as_secs_f64() / expected);
        self.took += took.as_secs_f64();
        self.expected += expected;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs rounds that take so many times what the table expects; gives order and scales, and the time of the end.
    fn soak(total: f64, costs: &[(f64, f64)], slowness: &[f64]) -> (Vec<(usize, f64)>, f64) {
        let costs: Vec<Cost> =
            costs.iter().map(|(preparation, work)| Cost { preparation: *preparation, work: *work }).collect();
        let mut schedule = Schedule::new(Duration::from_secs_f64(total), costs.clone());
        let (mut order, mut elapsed) = (Vec::new(), 0.0);
        while let Some(plan) = schedule.next(Duration::from_secs_f64(elapsed)) {
            let took = costs[plan.index].seconds(plan.scale) * slowness[plan.index];
            order.push((plan.index, plan.scale));
            elapsed += took;
            schedule.record(&plan, Duration::from_secs_f64(took));
        }
        (order, elapsed)
    }

    fn indexes(order: &[(usize, f64)]) -> Vec<usize> {
        order.iter().map(|(index, _)| *index).collect()
    }

    #[test]
    fn laboratories_take_turns_until_the_time_is_over() {
        let (order, end) = soak(700.0, &[(0.0, 100.0), (0.0, 100.0), (0.0, 100.0)], &[1.0; 3]);
        assert_eq!(indexes(&order)[..6], [0, 1, 2, 0, 1, 2]);
        assert!(order[..6].iter().all(|(_, scale)| (scale - 1.0).abs() < 1e-9) && end <= 700.0);
        assert_eq!(soak(60.0, &[], &[]).0, []);
        assert_eq!(soak(5.0, &[(10.0, 10.0)], &[1.0]).0, []);
    }

    #[test]
    fn the_first_turn_shrinks_into_the_time() {
        let (order, end) = soak(100.0, &[(10.0, 100.0), (0.0, 100.0)], &[1.0; 2]);
        assert_eq!(indexes(&order)[..2], [0, 1]);
        assert!((order[0].1 - 0.4).abs() < 1e-9, "{order:?}");
        assert!(end <= 100.0);
    }

    #[test]
    fn a_slow_machine_runs_all_of_them_too() {
        let (costs, slowness) = ([(0.0, 60.0); 10], [3.0; 10]);
        let (order, end) = soak(1000.0, &costs, &slowness);
        assert_eq!(indexes(&order)[..10], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert!(order[9].1 < 1.0 && end <= 1000.0, "{order:?} {end}");
    }

    #[test]
    fn the_last_round_says_how_long_the_next_one_takes() {
        // The first takes ten times what the table says: its third round is made short enough to end in time.
        let (order, end) = soak(300.0, &[(0.0, 10.0), (0.0, 10.0)], &[10.0, 1.0]);
        assert_eq!(indexes(&order), [0, 1, 0, 1, 0, 1]);
        assert!(order[4].1 < 1.0 && end <= 300.0, "{order:?} {end}");
    }

    #[test]
    fn a_short_laboratory_does_not_fill_the_rest_alone() {
        let (order, _) = soak(150.0, &[(1.0, 0.0), (90.0, 0.0)], &[1.0; 2]);
        assert_eq!(indexes(&order), [0, 1, 0, 0, 0]);
    }
}
