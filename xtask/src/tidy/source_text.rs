//! The text of a source file without its comments and tests.

/// The text before the unit tests within the file.
pub fn without_tests(text: &str) -> &str {
    let mut from = 0;
    while let Some(found) = text[from..].find("\n#[cfg(test)]\n") {
        let at = from + found + 1;
        let mut lines = text[at..].lines().skip(1).skip_while(|line| line.starts_with("#["));
        // A module in a file of its own ends nothing.
        if lines.next().is_some_and(|line| line.starts_with("mod ") && line.ends_with('{')) {
            return &text[..at];
        }
        from = at;
    }
    text
}

/// The text without comments of lines.
pub fn without_comments(text: &str) -> String {
    let code = |line: &str| line.split("//").next().unwrap_or_default().to_owned();
    text.lines().map(code).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tests_within_the_file_end_it() {
        let text = "fn a() {}\n\n#[cfg(test)]\n#[path = \"x.rs\"]\nmod x;\nfn b() {}\n";
        assert_eq!(without_tests(text), text);
        let with_tests = format!("{text}\n#[cfg(test)]\nmod tests {{\n}}\n");
        assert_eq!(without_tests(&with_tests), format!("{text}\n"));
        assert_eq!(without_comments("a // b\n/// c\nd"), "a \n\nd");
    }
}
