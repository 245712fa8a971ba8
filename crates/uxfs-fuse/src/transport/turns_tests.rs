#![allow(clippy::unwrap_used)]

use std::{sync::mpsc::channel, thread, time::Instant};

use super::*;

const LONG: Duration = Duration::from_secs(20);

#[test]
fn invariant_1_a_passed_turn_goes_to_a_waiting_thread() {
    let turns = Turns::default();
    let first = turns.take().unwrap();
    let (send, taken) = channel();
    thread::scope(|scope| {
        for _ in 0..3 {
            let (turns, send) = (&turns, send.clone());
            scope.spawn(move || {
                while let Some(turn) = turns.take() {
                    send.send(turn).unwrap();
                    turns.pass(turn);
                }
            });
        }
        assert!(taken.recv_timeout(Duration::from_millis(50)).is_err());
        turns.pass(first);
        for _ in 0..100 {
            assert_ne!(taken.recv_timeout(LONG).unwrap(), first);
        }
        turns.finish();
    });
    assert_eq!(turns.take(), None);
}

#[test]
fn invariant_2_a_turn_is_taken_from_a_thread_that_answers_for_long() {
    let turns = Turns::default();
    let first = turns.take().unwrap();
    thread::scope(|scope| {
        let guard = scope.spawn(|| turns.take());
        turns.wake_guard();
        for number in 1..200 {
            turns.begin(number);
            turns.end();
        }
        assert!(turns.is_held(first), "short requests keep the turn");
        turns.begin(200);
        let second = guard.join().unwrap().unwrap();
        assert!(!turns.is_held(first) && turns.is_held(second));
        turns.end();
        // What was lost is not passed.
        turns.pass(first);
        assert!(turns.is_held(second));
        turns.pass(second);
        assert!(turns.take().is_some());
    });
}

#[test]
fn invariant_3_the_guard_sleeps_while_no_request_comes() {
    let turns = Turns::default();
    let first = turns.take().unwrap();
    thread::scope(|scope| {
        let guard = scope.spawn(|| {
            let taken = turns.take();
            (taken, Instant::now())
        });
        // It is not woken: it takes nothing.
        turns.begin(7);
        thread::sleep(Duration::from_millis(20));
        assert!(turns.is_held(first) && !guard.is_finished());
        turns.wake_guard();
        assert!(guard.join().unwrap().0.is_some());
    });
}
