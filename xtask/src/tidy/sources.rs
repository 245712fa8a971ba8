//! Rules for source files.

/// Lines of a source file, tests apart.
const FILE_LIMIT_LINES: usize = 600;
/// Lines of a function, tests apart.
const FUNCTION_LIMIT_LINES: usize = 70;
/// Files that may be longer, with the reason. Kept empty if at all possible.
const LONGER_FILES: [&str; 0] = [];
/// The only files that may hold unsafe code.
const UNSAFE_FILES: [&str; 17] = [
    "crates/uxfs-fuse/tests/served/ioctls.rs",
    "crates/uxfs-fuse/src/fork.rs",
    "crates/uxfs-fuse/src/mounting/device.rs",
    "crates/uxfs-fuse/src/transport/ring/entry.rs",
    "crates/uxfs-fuse/src/statistics/query.rs",
    "crates/uxfs-fuse/src/confinement/descriptors.rs",
    "crates/uxfs-fuse/tests/confinement/acts.rs",
    "crates/uxfs-block/src/engine/uring.rs",
    "crates/uxfs-block/src/aligned_buffer.rs",
    "crates/uxfs-block/src/cache/held.rs",
    "crates/uxfs-block/src/loop_status.rs",
    "crates/uxfs-block/src/presence.rs",
    "crates/uxfs-block/src/write_protection.rs",
    "crates/uxfs-source/src/directory/own_working_directory.rs",
    "crates/uxfs/src/bin/uxfs/closed_output.rs",
    "crates/uxfs-lab/src/mounted/mapping.rs",
    "xtask/src/mount_load/memory_map.rs",
];

/// Words that no source file may hold. Each is written in two pieces, so that this file may be checked too.
const BANNED_IN_SOURCES: [(&str, &str, &str); 7] = [
    ("todo", "!(", "do it, or say so in KNOWN-LIMITATIONS.md"),
    ("unimplemented", "!(", "do it, or return an error"),
    ("FIX", "ME", "fix it, or say so in KNOWN-LIMITATIONS.md"),
    ("#[ign", "ore", "a test that is not run proves nothing"),
    ("dbg", "!(", "remove it"),
    ("libc::", "sync()", "use syncfs or fsync: sync hangs behind a wedged file system"),
    ("rustix::fs::", "sync()", "use syncfs or fsync: sync hangs behind a wedged file system"),
];

/// Words that no tracked text may hold.
const BANNED_EVERYWHERE: [(&str, &str, &str); 3] = [
    ("/wo", "rk/", "a path of one machine"),
    ("/opt/", "xfsprogs", "a path of one machine"),
    ("/ho", "me/", "a path of one machine"),
];

/// Adds what is wrong with the file `name`.
pub fn check(name: &str, text: &str, complaints: &mut Vec<String>) {
    for (start, end, instead) in BANNED_EVERYWHERE {
        complain_of_word(name, text, &format!("{start}{end}"), instead, complaints);
    }
    if !name.ends_with(".rs") {
        return;
    }
    for (start, end, instead) in BANNED_IN_SOURCES {
        complain_of_word(name, text, &format!("{start}{end}"), instead, complaints);
    }
    if !UNSAFE_FILES.contains(&name) {
        for word in ["unsafe {", "unsafe fn", "unsafe impl", "allow(unsafe_code"] {
            complain_of_word(name, text, word, "unsafe code has its own files", complaints);
        }
    }
    if !is_test(name) {
        lengths(name, text, complaints);
    }
}

fn is_test(name: &str) -> bool {
    name.ends_with("tests.rs") || name.contains("/tests/")
}

fn complain_of_word(name: &str, text: &str, word: &str, instead: &str, complaints: &mut Vec<String>) {
    let is_own_list =
        name.ends_with("tidy/sources.rs") && word.starts_with("unsafe") | word.starts_with("allow");
    if is_own_list {
        return;
    }
    for (number, _) in text.lines().enumerate().filter(|(_, line)| line.contains(word)) {
        complaints.push(format!("{name}:{}: `{word}`: {instead}", number + 1));
    }
}

fn lengths(name: &str, text: &str, complaints: &mut Vec<String>) {
    let count = text.lines().count();
    if count > FILE_LIMIT_LINES && !LONGER_FILES.contains(&name) {
        complaints.push(format!("{name}: {count} lines are too many: is it one room or several?"));
    }
    for (start, length) in functions(text).filter(|(_, length)| *length > FUNCTION_LIMIT_LINES) {
        complaints.push(format!("{name}:{start}: a function of {length} lines"));
    }
}

/// First line and length of each function. Formatted code closes a block at the indentation at which it opened it.
fn functions(text: &str) -> impl Iterator<Item = (usize, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let starts: Vec<usize> = (0..lines.len()).filter(|index| begins_function(lines[*index])).collect();
    starts.into_iter().filter_map(move |start| {
        let indentation = lines[start].len() - lines[start].trim_start().len();
        let closing = format!("{}}}", " ".repeat(indentation));
        let length = lines[start..].iter().position(|line| *line == closing)?;
        Some((start + 1, length + 1))
    })
}

fn begins_function(line: &str) -> bool {
    let mut words = line.trim_start().split(' ');
    let mut word = words.next();
    while matches!(word, Some("pub" | "pub(crate)" | "pub(super)" | "const" | "async")) {
        word = words.next();
    }
    word == Some("fn") && !line.ends_with([';', '}'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(name: &str, text: &str) -> Vec<String> {
        let mut all = Vec::new();
        check(name, text, &mut all);
        all
    }

    #[test]
    fn complains_of_banned_words() {
        let text = format!("fn f() {{\n    to{}do)\n}}\n", "do!(");
        let found = complaints("crates/a/src/a.rs", &text.replace("dodo", "do"));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("crates/a/src/a.rs:2: "));
        assert_eq!(complaints("README.md", &format!("see /wo{}x", "rk/")).len(), 1);
    }

    #[test]
    fn complains_of_long_functions_outside_tests() {
        let text = format!("impl A {{\n    pub fn long() {{\n{}    }}\n}}\n", "        a();\n".repeat(70));
        assert_eq!(complaints("a/src/a.rs", &text), ["a/src/a.rs:2: a function of 72 lines"]);
        assert!(complaints("a/src/a_tests.rs", &text).is_empty());
        assert_eq!(complaints("a/src/a.rs", &"a();\n".repeat(601)).len(), 1);
    }

    #[test]
    fn complains_of_unsafe_code() {
        assert_eq!(complaints("a/src/a.rs", "    unsafe { f() };\n").len(), 1);
        assert!(complaints(UNSAFE_FILES[0], "    unsafe { f() };\n").is_empty());
    }
}
