//! The recipes of `docs/recipes.md`, and the minute of the README, run as they stand there: each in a directory of its own, with what its comment prepares.

use std::{fmt::Write, fs, os::unix::fs::symlink, path::Path, process::Command};

use crate::common::program;

/// A heading with its commands.
#[derive(Default)]
struct Recipe {
    name: String,
    setup: String,
    /// Blocks of commands, each with the output that is shown for its last command.
    steps: Vec<(String, Option<String>)>,
}

fn recipes(text: &str) -> Vec<Recipe> {
    let mut recipes: Vec<Recipe> = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(name) = line.strip_prefix("## ") {
            recipes.push(Recipe { name: name.to_owned(), ..Recipe::default() });
            continue;
        }
        let Some(recipe) = recipes.last_mut() else { continue };
        let mut until = |end: &str| {
            lines.by_ref().take_while(|line| *line != end).fold(String::new(), |mut block, line| {
                writeln!(block, "{line}").unwrap();
                block
            })
        };
        match line {
            "<!-- setup" => recipe.setup = until("-->"),
            "```sh" => recipe.steps.push((until("```"), None)),
            "```text" => recipe.steps.last_mut().unwrap().1 = Some(until("```")),
            // Another language.
            _ if line.starts_with("```") => drop(until("```")),
            _ => {}
        }
    }
    recipes
}

/// Runs it with `uxfs` in the path, and gives what it prints.
fn run(script: &str, folder: &Path, path: &str, name: &str) -> String {
    let mut shell = Command::new("bash");
    shell.args(["-e", "-o", "pipefail", "-c", script]).current_dir(folder).env("PATH", path);
    let output = shell.output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{name}: {:?}\n{script}\n{printed}\n{words}", output.status);
    printed
}

#[test]
fn each_recipe_works_as_it_is_written() {
    let mut found = recipes(include_str!("../../../docs/recipes.md"));
    assert!(found.len() > 11 && found.iter().all(|recipe| !recipe.steps.is_empty()));
    let of_readme = recipes(include_str!("../../../README.md"));
    found.extend(of_readme.into_iter().filter(|recipe| !recipe.setup.is_empty()));
    assert!(found.last().unwrap().name.contains("minute"));
    let programs = tempfile::tempdir().unwrap();
    symlink(program(), programs.path().join("uxfs")).unwrap();
    // sfdisk lies where ordinary users do not look.
    let path = format!("{}:{}:/usr/sbin:/sbin", programs.path().display(), std::env::var("PATH").unwrap());
    for Recipe { name, setup, steps } in found {
        let folder = tempfile::tempdir().unwrap();
        run(&setup, folder.path(), &path, &name);
        for (script, shown) in steps {
            let printed = run(&script, folder.path(), &path, &name);
            if let Some(shown) = shown {
                assert!(printed.ends_with(&shown), "{name}: {printed}");
            }
        }
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        assert!(!mounts.contains(folder.path().to_str().unwrap()), "{name}: it leaves a mount");
    }
}
