//! Which modules reach each other.

use std::collections::{BTreeMap, BTreeSet};

/// A module as the path of its names.
pub type Module = Vec<String>;
/// Each module with those that it imports from.
pub type Graph = BTreeMap<Module, BTreeSet<Module>>;

/// The most modules of which each reaches every other, in the order of their names.
pub fn largest(graph: &Graph) -> Vec<Module> {
    let reached: BTreeMap<&Module, BTreeSet<&Module>> =
        graph.keys().map(|module| (module, reached_from(graph, module))).collect();
    let circle = |module: &Module| -> Vec<Module> {
        let others = reached.get(module).into_iter().flatten();
        let is_back = |other: &&&Module| reached.get(**other).is_some_and(|back| back.contains(module));
        others.filter(is_back).map(|other| (*other).clone()).collect()
    };
    graph.keys().map(circle).max_by_key(Vec::len).unwrap_or_default()
}

/// The modules that one reaches, itself only where it is in a circle.
fn reached_from<'g>(graph: &'g Graph, start: &Module) -> BTreeSet<&'g Module> {
    let (mut found, mut waiting) = (BTreeSet::new(), vec![start]);
    while let Some(module) = waiting.pop() {
        for next in graph.get(module).into_iter().flatten() {
            if found.insert(next) {
                waiting.push(next);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_circle_is_found() {
        let module = |name: &str| vec![name.to_owned()];
        let edges = [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("d", "e"), ("e", "d"), ("f", "a")];
        let mut graph = Graph::new();
        for (from, to) in edges {
            graph.entry(module(from)).or_default().insert(module(to));
        }
        assert_eq!(largest(&graph), [module("a"), module("b"), module("c")]);
        assert!(largest(&Graph::from([(module("a"), BTreeSet::from([module("b")]))])).is_empty());
    }
}
