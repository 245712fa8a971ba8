//! Which modules of a crate a module imports from: by `use`, and by paths that begin with `crate`, `super` or `self`.

use std::collections::{BTreeMap, BTreeSet};

use super::circles::{Graph, Module};

/// The graph of imports of a crate, from the text of each module without comments and tests.
pub fn graph(modules: &BTreeMap<Module, String>) -> Graph {
    modules.iter().map(|(module, text)| (module.clone(), imports(module, text, modules))).collect()
}

fn imports(module: &Module, text: &str, modules: &BTreeMap<Module, String>) -> BTreeSet<Module> {
    let paths = used_paths(text).into_iter().chain(inline_paths(text));
    let found = paths.filter_map(|path| target(module, &path, modules));
    found.filter(|target| target != module).collect()
}

/// The module that a path leads to: the longest beginning of it that is one.
fn target(module: &Module, path: &[String], modules: &BTreeMap<Module, String>) -> Option<Module> {
    let (first, rest) = path.split_first()?;
    let mut at = match first.as_str() {
        "crate" => Module::new(),
        "self" => module.clone(),
        "super" => module.split_last()?.1.to_vec(),
        // A child of this module, by its name alone.
        name => Some([module.as_slice(), &[name.to_owned()]].concat())
            .filter(|child| modules.contains_key(child))?,
    };
    for name in rest {
        if name == "super" {
            at.pop();
            continue;
        }
        let next = [at.as_slice(), std::slice::from_ref(name)].concat();
        if !modules.contains_key(&next) {
            break;
        }
        at = next;
    }
    modules.contains_key(&at).then_some(at)
}

/// The paths of all `use` declarations, one for each name.
fn used_paths(text: &str) -> Vec<Vec<String>> {
    let mut paths = Vec::new();
    for declaration in text.split(';') {
        let Some(begin) = declaration.rmatch_indices("use ").find(|(at, _)| begins_word(declaration, *at))
        else {
            continue;
        };
        let tree = &declaration[begin.0 + "use ".len()..];
        expand(&[], tree, &mut paths);
    }
    paths
}

fn begins_word(text: &str, at: usize) -> bool {
    text[..at].chars().next_back().is_none_or(char::is_whitespace)
}

/// Adds the paths of a tree of uses below `prefix`.
fn expand(prefix: &[String], tree: &str, paths: &mut Vec<Vec<String>>) {
    let names = |text: &str| -> Vec<String> {
        let name = |name: &str| name.split_whitespace().next().map(str::to_owned);
        text.split("::").filter_map(name).collect()
    };
    let Some((head, body)) = tree.split_once('{') else {
        paths.push([prefix, &names(tree)].concat());
        return;
    };
    let prefix = [prefix, &names(head)].concat();
    let body = body.rsplit_once('}').map_or(body, |(body, _)| body);
    let (mut depth, mut start) = (0_i32, 0);
    for (index, character) in body.char_indices() {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                expand(&prefix, &body[start..index], paths);
                start = index + 1;
            }
            _ => {}
        }
    }
    if !body[start..].trim().is_empty() {
        expand(&prefix, &body[start..], paths);
    }
}

/// Paths in the text that begin with `crate`, `super` or `self`.
fn inline_paths(text: &str) -> Vec<Vec<String>> {
    let is_path = |character: char| character.is_alphanumeric() || "_:".contains(character);
    // A path that ends open is the beginning of a tree of uses.
    let begins = |path: &&str| {
        ["crate::", "super::", "self::"].iter().any(|begin| path.starts_with(begin)) && !path.ends_with("::")
    };
    let split = |path: &str| path.split("::").filter(|name| !name.is_empty()).map(str::to_owned).collect();
    text.split(|character| !is_path(character)).filter(begins).map(split).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imports_of_all_kinds_are_found() {
        let module = |path: &str| -> Module { path.split("::").map(str::to_owned).collect() };
        let text = "use std::fmt;\npub(crate) use super::{one::Thing, two::{self, three::{A, B}}};\nuse crate::four;\n\
            use child::C;\nfn f() { crate::five::g(super::super::six::X) }\n";
        let mut modules = BTreeMap::from([(module("a::b"), text.to_owned())]);
        for name in ["a::one", "a::two", "a::two::three", "four", "a::b::child", "five", "six", "seven"] {
            modules.insert(module(name), String::new());
        }
        let found = graph(&modules).remove(&module("a::b")).unwrap();
        let names = ["a::b::child", "a::one", "a::two", "a::two::three", "five", "four", "six"];
        assert_eq!(found, names.into_iter().map(module).collect());
    }
}
