//! No type has so many methods that its name says nothing any more about where a method lives.

use std::collections::BTreeMap;

use super::source_text::without_tests;

/// Methods of a type over its whole crate, those of traits and tests apart.
const METHOD_LIMIT: usize = 60;

/// Methods by crate and type.
#[derive(Default)]
pub struct Methods {
    counts: BTreeMap<(String, String), usize>,
}

impl Methods {
    /// Counts the methods in a source file of a crate.
    pub fn add(&mut self, name: &str, text: &str) {
        let Some((krate, _)) = name.strip_prefix("crates/").and_then(|name| name.split_once("/src/")) else {
            return;
        };
        if name.ends_with("tests.rs") {
            return;
        }
        let mut current = None;
        for line in without_tests(text).lines() {
            if line == "}" {
                current = None;
            } else if let Some(subject) = inherent_impl(line) {
                current = Some(subject);
            } else if let Some(subject) = current
                && begins_method(line)
            {
                *self.counts.entry((krate.to_owned(), subject.to_owned())).or_default() += 1;
            }
        }
    }

    /// The types with the most methods, in words.
    pub fn summary(&self) -> String {
        let mut counts: Vec<_> = self.counts.iter().map(|((_, subject), count)| (count, subject)).collect();
        counts.sort_unstable_by(|one, other| other.cmp(one));
        let counts: Vec<String> =
            counts.iter().take(6).map(|(count, subject)| format!("{count} of `{subject}`")).collect();
        format!("most methods: {}", counts.join(", "))
    }

    /// Adds what is wrong.
    pub fn check(&self, complaints: &mut Vec<String>) {
        for ((krate, subject), count) in self.counts.iter().filter(|(_, count)| **count > METHOD_LIMIT) {
            complaints.push(format!(
                "{krate}: `{subject}` has {count} methods, more than {METHOD_LIMIT}: which smaller types are in it?"
            ));
        }
    }
}

/// The type of an `impl` block that is not one of a trait.
fn inherent_impl(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("impl").filter(|_| line.ends_with('{') && !line.contains(" for "))?;
    let rest = if rest.starts_with('<') { rest.get(end_of_generics(rest)?..)? } else { rest };
    let path = rest.trim_start().split(['<', ' ', '{']).next()?;
    path.rsplit("::").next().filter(|name| !name.is_empty())
}

/// Where the generic parameters end that a text begins with.
fn end_of_generics(text: &str) -> Option<usize> {
    let mut depth = 0_u32;
    for (index, character) in text.char_indices() {
        match character {
            '<' => depth += 1,
            '>' if !text[..index].ends_with('-') => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(index + 1);
        }
    }
    None
}

/// Whether a line begins a method of a block that is not indented itself.
fn begins_method(line: &str) -> bool {
    let Some(line) = line.strip_prefix("    ").filter(|line| !line.starts_with(' ')) else { return false };
    let line = match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(") ").map_or("", |(_, rest)| rest),
        Some(rest) => rest.trim_start(),
        None => line,
    };
    line.strip_prefix("const ").unwrap_or(line).starts_with("fn ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(texts: &[&str]) -> Methods {
        let mut methods = Methods::default();
        for (index, text) in texts.iter().enumerate() {
            methods.add(&format!("crates/a/src/file_{index}.rs"), text);
        }
        methods
    }

    const TEXT: &str = "impl<'a, F: Fn() -> u32> Thing<'a, F> {\n    pub fn one(&self) {\n        fn inner() {}\n    }\n    \
        pub(in crate::x) const fn two() {}\n    fn three<T>() {}\n}\nimpl Display for Thing {\n    fn fmt() {}\n}\n\
        impl other::Thing {\n    fn four() {}\n}\n#[cfg(test)]\nmod tests {\n    impl Thing {\n        fn no() {}\n    }\n}\n";

    #[test]
    fn methods_of_a_type_are_counted_over_its_crate() {
        let methods = count(&[TEXT, "impl Thing {\n    fn five() {}\n}\n"]);
        let counts: Vec<_> =
            methods.counts.iter().map(|((_, name), count)| (name.as_str(), *count)).collect();
        assert_eq!(counts, [("Thing", 5)]);
    }

    #[test]
    fn large_types_are_found() {
        let complaints = |methods: usize| {
            let text = format!("impl Large {{\n{}}}\n", "    fn f() {}\n".repeat(methods));
            let mut all = Vec::new();
            count(&[&text]).check(&mut all);
            all
        };
        assert!(complaints(60).is_empty());
        assert!(complaints(61)[0].contains("`Large` has 61 methods, more than 60"));
    }
}
