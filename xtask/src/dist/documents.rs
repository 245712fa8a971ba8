//! The documents of a package. Their links lead to files that are installed with them, or to the repository.

use std::{
    collections::BTreeMap,
    fs,
    path::{Component, Path, PathBuf},
};

use anyhow::{Context, Result};
use regex::{Captures, Regex};

use super::{HOMEPAGE, tree::write};

/// Files of the repository, and where they lie in the folder of documents.
const DOCUMENTS: [(&str, &str); 6] = [
    ("README.md", "README.md"),
    ("KNOWN-LIMITATIONS.md", "KNOWN-LIMITATIONS.md"),
    ("ARCHITECTURE.md", "ARCHITECTURE.md"),
    ("LICENSE-MIT", "LICENSE-MIT"),
    ("LICENSE-APACHE", "LICENSE-APACHE"),
    ("crates/uxfs-cli/json.schema.json", "docs/json.schema.json"),
];
const FOLDER: &str = "docs";

/// Installs them into a folder.
pub fn lay_out(folder: &Path) -> Result<()> {
    let mut places: BTreeMap<PathBuf, PathBuf> =
        DOCUMENTS.iter().map(|(from, to)| (PathBuf::from(from), PathBuf::from(to))).collect();
    for page in fs::read_dir(FOLDER)? {
        let page = Path::new(FOLDER).join(page?.file_name());
        places.insert(page.clone(), page);
    }
    for (from, to) in &places {
        let bytes = fs::read(from).with_context(|| format!("cannot read {}", from.display()))?;
        let bytes = match from.extension().is_some_and(|extension| extension == "md") {
            true => with_links(std::str::from_utf8(&bytes)?, from, to, &places)?.into_bytes(),
            false => bytes,
        };
        write(&bytes, &folder.join(to), 0o644)?;
    }
    Ok(())
}

/// The text of a document, with links that lead somewhere from its new place.
fn with_links(text: &str, from: &Path, to: &Path, places: &BTreeMap<PathBuf, PathBuf>) -> Result<String> {
    let links = Regex::new(r"\]\(([^)#:\s]+)(#[^)\s]*)?\)")?;
    let changed = links.replace_all(text, |found: &Captures<'_>| {
        let (link, mark) = (&found[1], found.get(2).map_or("", |mark| mark.as_str()));
        let target = joined(from.parent().unwrap_or(Path::new("")), link);
        let link = match places.get(&target) {
            Some(place) => relative(to, place),
            None => format!("{HOMEPAGE}/blob/HEAD/{}", target.display()),
        };
        format!("]({link}{mark})")
    });
    Ok(changed.into_owned())
}

/// A link in a folder, from the root of the repository.
fn joined(folder: &Path, link: &str) -> PathBuf {
    let mut path = folder.to_path_buf();
    for part in Path::new(link).components() {
        match part {
            Component::ParentDir => drop(path.pop()),
            Component::CurDir => {}
            part => path.push(part),
        }
    }
    path
}

/// How one document leads to another.
fn relative(from: &Path, to: &Path) -> String {
    let ups = from.components().count().saturating_sub(1);
    match (from.parent(), to.parent()) {
        (Some(here), Some(there)) if here == there => {
            to.file_name().unwrap_or_default().to_string_lossy().into_owned()
        }
        _ => format!("{}{}", "../".repeat(ups), to.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_what_is_installed_or_to_the_repository() {
        let places: BTreeMap<PathBuf, PathBuf> = [
            ("README.md", "README.md"),
            ("docs/a.md", "docs/a.md"),
            ("docs/b.md", "docs/b.md"),
            ("x/s.json", "docs/s.json"),
        ]
        .map(|(from, to)| (from.into(), to.into()))
        .into();
        let changed = |text, page: &str| with_links(text, page.as_ref(), page.as_ref(), &places).unwrap();
        let text = "[a](docs/a.md#part) [x](src/x.rs) [web](https://a.b/c) [here](#part)";
        let expected = format!(
            "[a](docs/a.md#part) [x]({HOMEPAGE}/blob/HEAD/src/x.rs) [web](https://a.b/c) [here](#part)"
        );
        assert_eq!(changed(text, "README.md"), expected);
        let text = "[up](../README.md) [b](b.md) [s](../x/s.json)";
        assert_eq!(changed(text, "docs/a.md"), "[up](../README.md) [b](b.md) [s](s.json)");
    }
}
