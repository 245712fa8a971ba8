//! Licences and sources of all dependencies, by the list in `deny.toml`.

use std::{env, ffi::OsString, fs, process::Command};

use anyhow::{Context, Result};
use serde::Deserialize;
use uxfs_testkit::judges::workspace_directory;

use crate::process;

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    license: Option<String>,
    source: Option<String>,
}

/// Adds every package whose licence is not allowed or that comes from elsewhere than the public registry.
pub fn check(complaints: &mut Vec<String>) -> Result<()> {
    let root = workspace_directory();
    let allowed = allowed_licences(&fs::read_to_string(root.join("deny.toml"))?)?;
    let cargo = env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let arguments = ["metadata", "--format-version", "1", "--locked"];
    let text = process::read(Command::new(cargo).args(arguments).current_dir(&root))?;
    let metadata: Metadata = serde_json::from_str(&text)?;
    for package in metadata.packages {
        let licence = package.license.unwrap_or_default();
        if !is_allowed(&licence, &allowed) {
            complaints.push(format!("{}: its licence is not allowed: {licence:?}", package.name));
        }
        if package.source.is_some_and(|source| !source.starts_with("registry+")) {
            complaints.push(format!("{}: not from the registry", package.name));
        }
    }
    Ok(())
}

/// The strings of `allow = […]`.
fn allowed_licences(deny: &str) -> Result<Vec<String>> {
    let (_, rest) = deny.split_once("allow = [").context("deny.toml allows no licence")?;
    let (list, _) = rest.split_once(']').context("deny.toml: a list without an end")?;
    Ok(list.split('"').skip(1).step_by(2).map(str::to_owned).collect())
}

/// Judges an SPDX expression: `A OR B`, `A AND B`, parentheses, and the old form `A/B`.
fn is_allowed(expression: &str, allowed: &[String]) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    !words.is_empty() && any_of(&mut rest, allowed) && rest.is_empty()
}

fn any_of(rest: &mut &[&str], allowed: &[String]) -> bool {
    let mut is_good = all_of(rest, allowed);
    while take(rest, "OR") {
        is_good |= all_of(rest, allowed);
    }
    is_good
}

fn all_of(rest: &mut &[&str], allowed: &[String]) -> bool {
    let mut is_good = one(rest, allowed);
    while take(rest, "AND") {
        is_good &= one(rest, allowed);
    }
    is_good
}

fn one(rest: &mut &[&str], allowed: &[String]) -> bool {
    if take(rest, "(") {
        return any_of(rest, allowed) & take(rest, ")");
    }
    let Some((word, after)) = rest.split_first() else { return false };
    let mut name = (*word).to_owned();
    *rest = after;
    if take(rest, "WITH") {
        let Some((exception, after)) = rest.split_first() else { return false };
        name = format!("{name} WITH {exception}");
        *rest = after;
    }
    allowed.contains(&name)
}

fn take(rest: &mut &[&str], word: &str) -> bool {
    match rest.split_first() {
        Some((first, after)) if *first == word => {
            *rest = after;
            true
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn judges_expressions() {
        let allowed =
            allowed_licences("[licenses]\nallow = [\n \"MIT\",\n \"Apache-2.0\", \"Unicode-3.0\"\n]\n")
                .unwrap();
        assert_eq!(allowed, ["MIT", "Apache-2.0", "Unicode-3.0"]);
        for good in ["MIT", "GPL-2.0 OR MIT", "MIT/GPL-2.0", "(GPL-2.0 OR MIT) AND Unicode-3.0"] {
            assert!(is_allowed(good, &allowed), "{good}");
        }
        for bad in ["", "GPL-2.0", "MIT AND GPL-2.0", "(MIT OR Apache-2.0) AND GPL-2.0", "MIT WITH X", "(MIT"]
        {
            assert!(!is_allowed(bad, &allowed), "{bad}");
        }
    }
}
