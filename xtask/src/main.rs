//! The one door for developer commands: `cargo xtask --help`.
fn main() {}
