//! Completions: each shell loads its script without a word, and completes with it; shellcheck finds nothing.

use std::{fs, path::Path, process::Command};

use crate::common;

/// Runs a program in a folder, and gives what it prints; it must not complain.
fn quiet(program: &str, arguments: &[&str], folder: &Path) -> String {
    let output = Command::new(program).args(arguments).current_dir(folder).env("HOME", folder).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error} (cargo xtask judges installs it)"));
    let words = String::from_utf8_lossy(&output.stderr);
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && words.is_empty(), "{program} {arguments:?}: {printed}{words}");
    printed
}

fn script(shell: &str, name: &str, folder: &Path) {
    fs::write(folder.join(name), common::succeeds(&["completions", shell])).unwrap();
}

#[test]
fn bash_completes_and_shellcheck_finds_nothing() {
    let folder = tempfile::tempdir().unwrap();
    script("bash", "uxfs.bash", folder.path());
    assert_eq!(quiet("shellcheck", &["-s", "bash", "uxfs.bash"], folder.path()), "");
    let complete = "source ./uxfs.bash; complete -p uxfs > /dev/null
        COMP_WORDS=(uxfs free); COMP_CWORD=1; _uxfs uxfs free uxfs; echo \"${COMPREPLY[@]}\"
        COMP_WORDS=(uxfs repair --dry); COMP_CWORD=2; _uxfs uxfs --dry repair; echo \"${COMPREPLY[@]}\"";
    assert_eq!(quiet("bash", &["--norc", "-c", complete], folder.path()), "freespace\n--dry-run\n");
}

#[test]
fn zsh_loads_its_function() {
    let folder = tempfile::tempdir().unwrap();
    script("zsh", "_uxfs", folder.path());
    quiet("zsh", &["-fn", "_uxfs"], folder.path());
    let load = "fpath=($PWD $fpath); autoload -Uz compinit; compinit -u -D; print ${_comps[uxfs]}
        autoload +X -U _uxfs; functions _uxfs | grep -c freespace";
    let printed = quiet("zsh", &["-fc", load], folder.path());
    let (function, count) = printed.trim_end().split_once('\n').unwrap();
    assert!(function == "_uxfs" && count.parse::<u32>().unwrap() > 0, "{printed}");
}

#[test]
fn fish_completes() {
    let folder = tempfile::tempdir().unwrap();
    script("fish", "uxfs.fish", folder.path());
    let complete = "source uxfs.fish; complete -C'uxfs free'; complete -C'uxfs repair --dry'";
    let printed = quiet("fish", &["--no-config", "-c", complete], folder.path());
    let words: Vec<_> = printed.lines().filter_map(|line| line.split('\t').next()).collect();
    assert_eq!(words, ["freespace", "--dry-run"]);
}
