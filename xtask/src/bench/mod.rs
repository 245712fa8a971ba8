//! Benchmarks: commands that measure uxfs beside its rivals in the same run. Never assertions in tests.

pub mod fixtures;
