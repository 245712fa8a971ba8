//! Source files that the documents name: each must exist, so that a page cannot outlive the code that it describes.

/// Adds what a document names that does not exist. Paths stand between backticks; those in a
/// crate may leave out `crates/`.
pub fn check(name: &str, text: &str, tracked: &[&str], complaints: &mut Vec<String>) {
    if !name.ends_with(".md") {
        return;
    }
    for (index, line) in text.lines().enumerate() {
        for path in named_paths(line).filter(|path| !exists(path, tracked)) {
            complaints.push(format!("{name}:{}: `{path}` does not exist", index + 1));
        }
    }
}

/// Paths between backticks that begin with the name of a crate, or with a folder of the repository.
fn named_paths(line: &str) -> impl Iterator<Item = &str> {
    let quoted = line.split('`').skip(1).step_by(2);
    quoted.filter(|quoted| {
        let is_path = ["uxfs-", "uxfs/", "crates/", "xtask/", "docs/", "tests/", "fuzz/"]
            .iter()
            .any(|start| quoted.starts_with(start));
        is_path && quoted.contains('/') && !quoted.contains([' ', '*', '<', '…'])
    })
}

fn exists(path: &str, tracked: &[&str]) -> bool {
    [path.to_owned(), format!("crates/{path}")].iter().any(|path| {
        let folder = format!("{}/", path.trim_end_matches('/'));
        tracked.iter().any(|tracked| tracked == path || tracked.starts_with(&folder))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_name_what_exists() {
        let tracked = ["crates/uxfs-a/src/b.rs", "docs/c.md"];
        let complaints = |text: &str| {
            let mut all = Vec::new();
            check("README.md", text, &tracked, &mut all);
            all
        };
        assert!(
            complaints("`uxfs-a/src/b.rs`, `uxfs-a/src/`, `crates/uxfs-a`, `docs/c.md`, `uxfs ls`")
                .is_empty()
        );
        assert_eq!(complaints("one\n`uxfs-a/src/d.rs`"), ["README.md:2: `uxfs-a/src/d.rs` does not exist"]);
    }
}
