//! Work in parts, from several threads, whose results come in one order.

use std::{
    num::NonZeroUsize,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

/// Runs `work` for each number below `count`, and gives the results in the order of the numbers, however many threads there are.
pub(crate) fn in_order<T: Send>(
    threads: NonZeroUsize,
    count: usize,
    work: impl Fn(usize) -> T + Sync,
) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let run = || {
        let mut done = Vec::new();
        loop {
            let number = next.fetch_add(1, Relaxed);
            if number >= count {
                return done;
            }
            done.push((number, work(number)));
        }
    };
    let mut all = std::thread::scope(|scope| {
        let thread = || std::thread::Builder::new().name("uxfs-repair".to_owned());
        // Where no more threads can be started, those that run do the work.
        let others: Vec<_> =
            (1..threads.get().min(count)).map_while(|_| thread().spawn_scoped(scope, run).ok()).collect();
        let mut all = run();
        for other in others {
            match other.join() {
                Ok(done) => all.extend(done),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        all
    });
    all.sort_unstable_by_key(|(number, _)| *number);
    all.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order() {
        for threads in [1, 2, 4, 40] {
            let threads = NonZeroUsize::new(threads).unwrap();
            let results = in_order(threads, 100, |number| number * 3);
            assert_eq!(results, (0..100).map(|number| number * 3).collect::<Vec<_>>());
            assert!(in_order(threads, 0, |number| number).is_empty());
        }
    }
}
