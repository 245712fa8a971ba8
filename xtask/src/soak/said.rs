//! What the log of a round says.

/// Parts of lines that tell a finding.
const FINDINGS: [&str; 9] = [
    "WRONG",
    "ESCAPED:",
    "ESCAPED --",
    "executions  ESCAPED",
    "BROKEN",
    "PANICS",
    "FAILED",
    "panicked at",
    "hangs",
];
/// What `revive` says about the rival of `uxfs repair` is none of its findings.
const RIVAL: &str = ", xfs_repair: ";
/// Beginnings of lines with a command that repeats a finding, the best first.
const REPEATS: [&str; 2] = ["shortest: ", "again: "];
/// Of a line that is shown.
const MOST_CHARACTERS: usize = 400;

/// What a laboratory did: its last line.
pub fn closing(log: &str) -> String {
    lines(log).next_back().map_or_else(|| "it printed nothing".to_owned(), one_line)
}

/// What a laboratory that failed found: the first line that tells a finding, else the last one.
pub fn finding(log: &str) -> String {
    let tells = |line: &&str| FINDINGS.iter().any(|word| line.contains(word)) && !line.contains(RIVAL);
    lines(log).find(tells).map_or_else(|| closing(log), one_line)
}

/// The command that the laboratory itself names for its first finding: it repeats less than the whole round.
pub fn repeating_command(log: &str) -> Option<String> {
    let command = |word: &&str| lines(log).find_map(|line| line.strip_prefix(*word));
    REPEATS.iter().find_map(command).map(one_line)
}

/// The last `count` lines.
pub fn tail(log: &str, count: usize) -> Vec<String> {
    let all: Vec<&str> = lines(log).collect();
    all.iter()
        .skip(all.len().saturating_sub(count))
        .map(|line| line.chars().take(MOST_CHARACTERS).collect())
        .collect()
}

fn lines(log: &str) -> impl DoubleEndedIterator<Item = &str> {
    log.lines().map(str::trim_end).filter(|line| !line.is_empty())
}

/// Columns become words with one space between.
fn one_line(line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    words.join(" ").chars().take(MOST_CHARACTERS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_says_what_was_done() {
        assert_eq!(
            closing("--seed 7\nfsx             sound     1.0 s  9 operations\n\n"),
            "fsx sound 1.0 s 9 operations"
        );
        assert_eq!(closing("\n"), "it printed nothing");
        assert_eq!(closing(&"x".repeat(1000)).len(), MOST_CHARACTERS);
    }

    #[test]
    fn a_finding_is_the_line_that_tells_it() {
        let log =
            "100 states\nWRONG: seed 5: a file\nagain: cargo xtask crash --seed 5\nxtask: states are wrong\n";
        assert_eq!(finding(log), "WRONG: seed 5: a file");
        assert_eq!(repeating_command(log).as_deref(), Some("cargo xtask crash --seed 5"));
        assert_eq!(finding("one\nxtask: cannot mount\n"), "xtask: cannot mount");
        assert_eq!(repeating_command("one\n"), None);
    }

    #[test]
    fn the_shortest_repetition_is_the_best_and_else_the_first() {
        let first = "again: cargo xtask crash --seed 5\nagain: cargo xtask crash --seed 6\n";
        assert_eq!(repeating_command(first).as_deref(), Some("cargo xtask crash --seed 5"));
        let log = format!("{first}shortest: cargo xtask crash --seed 5 --operations 2\n");
        assert_eq!(repeating_command(&log).as_deref(), Some("cargo xtask crash --seed 5 --operations 2"));
    }

    #[test]
    fn tables_and_commands_are_no_findings() {
        let log = "inode  9  ESCAPED 1\nfield-fuzz: 9 cases; 1 escapes\nESCAPED: case 4: lossy\nxtask: 1 cases escaped\n";
        assert_eq!(finding(log), "ESCAPED: case 4: lossy");
        assert_eq!(
            finding("btree     77 executions  ESCAPED\nall 77 executions\n"),
            "btree 77 executions ESCAPED"
        );
    }

    #[test]
    fn faults_of_the_rival_are_no_findings() {
        let log = "BROKEN PROMISE: default, agf/zero/1 case 0, xfs_repair: dies\n\
            BROKEN PROMISE: default, agf/zero/1 case 0, uxfs repair: dies\nxtask: uxfs repair broke 1 promises\n";
        assert!(finding(log).ends_with("uxfs repair: dies"));
    }

    #[test]
    fn the_end_of_a_log() {
        assert_eq!(tail("a\n\nb\nc\n", 2), ["b", "c"]);
        assert_eq!(tail("a\n", 2), ["a"]);
    }
}
