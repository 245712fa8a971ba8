//! Arrows point down only: which crates a crate may depend on, and how large circles of imports within one may be.

mod circles;
mod imports;

use std::collections::{BTreeMap, BTreeSet};

use super::source_text::{without_comments, without_tests};

/// A crate of the workspace and its allowed dependencies. Dependencies of its tests alone are not looked at.
struct Layer {
    name: &'static str,
    /// Crates that it may depend on, with all that these may depend on.
    above: &'static [&'static str],
    /// Further crates that it may depend on, without what lies below them.
    beside: &'static [&'static str],
}

/// All crates. Each comes after those that it may depend on.
const LAYERS: [Layer; 21] = [
    Layer { name: "uxfs-format", above: &[], beside: &[] },
    Layer { name: "uxfs-block", above: &["uxfs-format"], beside: &[] },
    Layer { name: "uxfs-image", above: &["uxfs-block"], beside: &[] },
    Layer { name: "uxfs-partition", above: &["uxfs-block"], beside: &[] },
    Layer { name: "uxfs-volume", above: &["uxfs-block"], beside: &[] },
    Layer { name: "uxfs-journal", above: &["uxfs-volume"], beside: &[] },
    Layer { name: "uxfs-engine", above: &["uxfs-journal"], beside: &[] },
    Layer { name: "uxfs-filesystem", above: &["uxfs-engine"], beside: &[] },
    Layer { name: "uxfs-fuse", above: &["uxfs-filesystem"], beside: &[] },
    Layer { name: "uxfs-mkfs", above: &["uxfs-partition"], beside: &[] },
    Layer { name: "uxfs-repair", above: &["uxfs-filesystem", "uxfs-mkfs"], beside: &[] },
    Layer { name: "uxfs-metadump", above: &["uxfs-repair"], beside: &[] },
    Layer { name: "uxfs-source", above: &[], beside: &["uxfs-block"] },
    Layer { name: "uxfs-extract", above: &["uxfs-volume"], beside: &["uxfs-filesystem", "uxfs-engine"] },
    Layer { name: "uxfs-rescue", above: &["uxfs-repair", "uxfs-extract"], beside: &[] },
    Layer {
        name: "uxfs-populate",
        above: &["uxfs-source", "uxfs-mkfs", "uxfs-volume"],
        beside: &["uxfs-filesystem", "uxfs-engine"],
    },
    Layer { name: "uxfs-bench", above: &[], beside: &["uxfs-filesystem", "uxfs-engine", "uxfs-volume"] },
    Layer {
        name: "uxfs-cli",
        above: &[
            "uxfs-populate",
            "uxfs-bench",
            "uxfs-fuse",
            "uxfs-image",
            "uxfs-metadump",
            "uxfs-partition",
            "uxfs-rescue",
        ],
        beside: &[],
    },
    Layer { name: "uxfs", above: &["uxfs-cli"], beside: &[] },
    Layer { name: "uxfs-testkit", above: &["uxfs-mkfs", "uxfs-filesystem"], beside: &[] },
    Layer {
        name: "uxfs-lab",
        above: &[
            "uxfs-testkit",
            "uxfs-repair",
            "uxfs-metadump",
            "uxfs-rescue",
            "uxfs-image",
            "uxfs-partition",
        ],
        beside: &[],
    },
];

/// Crates that a crate may depend on; `None` where the list does not have it.
fn allowed(krate: &str) -> Option<BTreeSet<&'static str>> {
    let layer = LAYERS.iter().find(|layer| layer.name == krate)?;
    let mut all: BTreeSet<_> = layer.above.iter().chain(layer.beside).copied().collect();
    all.extend(layer.above.iter().filter_map(|below| allowed(below)).flatten());
    Some(all)
}

/// Files that import each other in a circle, at most.
const CIRCLE_LIMIT: usize = 15;

/// Dependencies and imports of the workspace.
#[derive(Default)]
pub struct Layers {
    /// Dependencies by crate.
    dependencies: BTreeMap<String, Vec<String>>,
    /// Source files by crate, and in it by module.
    modules: BTreeMap<String, BTreeMap<Vec<String>, String>>,
}

impl Layers {
    /// Takes in a file.
    pub fn add(&mut self, name: &str, text: &str) {
        let Some((krate, file)) = name.strip_prefix("crates/").and_then(|name| name.split_once('/')) else {
            return;
        };
        if file == "Cargo.toml" {
            self.dependencies.insert(krate.to_owned(), dependencies(text));
        } else if let Some(file) = file.strip_prefix("src/").and_then(|file| file.strip_suffix(".rs"))
            && !file.ends_with("tests")
        {
            let code = without_comments(without_tests(text));
            self.modules.entry(krate.to_owned()).or_default().insert(module_of(file), code);
        }
    }

    /// The largest circles of files, in words.
    pub fn summary(&self) -> String {
        let size = |modules| circles::largest(&imports::graph(modules)).len();
        let mut sizes: Vec<_> = self.modules.iter().map(|(krate, modules)| (size(modules), krate)).collect();
        sizes.sort_unstable_by(|one, other| other.cmp(one));
        let sizes: Vec<String> =
            sizes.iter().take(3).map(|(size, krate)| format!("{size} in {krate}")).collect();
        format!("largest circles of files: {}", sizes.join(", "))
    }

    /// Adds what is wrong.
    pub fn check(&self, complaints: &mut Vec<String>) {
        for (krate, dependencies) in &self.dependencies {
            check_dependencies(krate, dependencies, complaints);
        }
        for (krate, modules) in &self.modules {
            check_circles(krate, &imports::graph(modules), complaints);
        }
    }
}

/// The module of a file below `src`, as the path of its names: none for the root.
fn module_of(file: &str) -> Vec<String> {
    let mut path: Vec<String> = file.split('/').map(str::to_owned).collect();
    if path.last().is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str())) {
        path.pop();
    }
    path
}

/// The crates of this workspace in the section of dependencies.
fn dependencies(manifest: &str) -> Vec<String> {
    let mut is_inside = false;
    let mut found = Vec::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            is_inside = line == "[dependencies]";
        } else if is_inside && line.starts_with("uxfs") {
            found.extend(line.split(['.', ' ', '=']).next().map(str::to_owned));
        }
    }
    found
}

fn check_dependencies(krate: &str, dependencies: &[String], complaints: &mut Vec<String>) {
    let Some(allowed) = allowed(krate) else {
        complaints.push(format!("{krate}: the list of layers in tidy/layers.rs does not have it"));
        return;
    };
    for dependency in dependencies.iter().filter(|name| !allowed.contains(&name.as_str())) {
        complaints.push(format!("{krate}: depends on {dependency}, which the layers do not allow"));
    }
}

fn check_circles(krate: &str, graph: &circles::Graph, complaints: &mut Vec<String>) {
    let circle = circles::largest(graph);
    if circle.len() > CIRCLE_LIMIT {
        let files: Vec<String> = circle.iter().map(|module| module.join("::")).collect();
        let files = files.join(", ");
        complaints.push(format!(
            "{krate}: {} files import each other in a circle, more than {CIRCLE_LIMIT}: {files}",
            circle.len()
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_layer_lies_above_what_it_may_depend_on() {
        for (index, layer) in LAYERS.iter().enumerate() {
            let is_below = |name: &&str| LAYERS[..index].iter().any(|below| below.name == *name);
            assert!(layer.above.iter().chain(layer.beside).all(is_below), "{}", layer.name);
        }
    }

    #[test]
    fn what_lies_below_a_dependency_is_allowed_unless_it_stands_beside() {
        let allowed = |krate| allowed(krate).unwrap().into_iter().collect::<Vec<_>>();
        assert_eq!(allowed("uxfs-journal"), ["uxfs-block", "uxfs-format", "uxfs-volume"]);
        assert_eq!(allowed("uxfs-source"), ["uxfs-block"]);
        let extract = ["uxfs-block", "uxfs-engine", "uxfs-filesystem", "uxfs-format", "uxfs-volume"];
        assert_eq!(allowed("uxfs-extract"), extract);
        let below_the_binary = LAYERS.iter().map(|layer| layer.name);
        let below_the_binary: BTreeSet<_> =
            below_the_binary.filter(|name| !["uxfs", "uxfs-testkit", "uxfs-lab"].contains(name)).collect();
        assert_eq!(allowed("uxfs"), below_the_binary.into_iter().collect::<Vec<_>>());
    }

    #[test]
    fn dependencies_that_point_up_are_found() {
        let manifest = "[dependencies]\nuxfs-format.workspace = true\nuxfs-engine = { path = \"..\" }\nlibc = \"1\"\n\
            [dev-dependencies]\nuxfs-lab.workspace = true\n";
        assert_eq!(dependencies(manifest), ["uxfs-format", "uxfs-engine"]);
        let mut complaints = Vec::new();
        check_dependencies("uxfs-block", &dependencies(manifest), &mut complaints);
        check_dependencies("uxfs-new", &[], &mut complaints);
        assert_eq!(
            complaints,
            [
                "uxfs-block: depends on uxfs-engine, which the layers do not allow",
                "uxfs-new: the list of layers in tidy/layers.rs does not have it"
            ]
        );
    }

    #[test]
    fn large_circles_are_found() {
        let modules = |count: usize| -> BTreeMap<Vec<String>, String> {
            let name = |index: usize| format!("m{}", index % count);
            let text = |index| format!("use crate::{}::Thing;\n", name(index + 1));
            (0..count).map(|index| (vec![name(index)], text(index))).collect()
        };
        let complaints = |count| {
            let mut all = Vec::new();
            check_circles("a", &imports::graph(&modules(count)), &mut all);
            all
        };
        assert!(complaints(15).is_empty());
        assert!(
            complaints(16)[0].starts_with("a: 16 files import each other in a circle, more than 15: m0, ")
        );
    }
}
