//! With `--json` every failure of a command is one document on standard error, also where the command line is wrong.

use serde_json::Value;

use crate::common;
use crate::common::uxfs;

#[track_caller]
fn error_of(arguments: &[&str], code: i32) -> String {
    let output = uxfs(arguments);
    let words = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {words}");
    assert_eq!(words.lines().count(), 1, "{arguments:?}: {words}");
    let document: Value = serde_json::from_str(&words).unwrap();
    assert_eq!(document["error"]["exit_code"], code, "{arguments:?}");
    document["error"]["message"].as_str().unwrap().to_owned()
}

#[test]
fn wrong_command_lines_are_documents() {
    for (arguments, word) in [
        (&["--json", "ls"][..], "<IMAGE>"),
        (&["ls", "--json", "--no-such-option", "image"], "--no-such-option"),
        (&["--json", "no-such-command"], "no-such-command"),
        (&["--json"], "subcommand"),
        (&["mkfs", "--json", "--size", "many", "image"], "many"),
        (&["stats", "--json"], "<DIRECTORY>"),
        (&["find", "--json", "image-that-is-not-there", "-nme", "x"], "image-that-is-not-there"),
    ] {
        let code = if arguments.contains(&"find") { 1 } else { 2 };
        let message = error_of(arguments, code);
        assert!(message.contains(word), "{arguments:?}: {message}");
        assert!(!message.contains("error:") && !message.contains("Usage:"), "{message}");
    }
    // What is asked for is no error.
    let help = uxfs(&["ls", "--json", "--help"]);
    assert!(help.status.success() && help.stderr.is_empty());
}

#[test]
fn failures_are_documents() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing");
    let missing = missing.to_str().unwrap();
    for command in ["ls", "info", "check", "repair", "shell", "metadump", "mount", "extract"] {
        let target: &[&str] = match command {
            "metadump" => &["dump"],
            "mount" => &[folder.path().to_str().unwrap()],
            "extract" => &["--to", "nowhere"],
            _ => &[],
        };
        let message = error_of(&[&["--json", command, missing], target].concat(), 1);
        assert!(message.contains(missing) && !message.contains("os error"), "{command}: {message}");
    }
}

/// Of several objects each that is wrong has a document, and the others are shown.
#[test]
fn problems_are_documents() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    let image = image.to_str().unwrap();
    common::succeeds(&["mkfs", "--size", "300M", "--unsupported", image]);
    common::succeeds(&["mkdir", image, "/there"]);
    for (arguments, told) in [
        (&["ls", "--json", image, "/there", "/missing"][..], 1),
        (&["stat", "--json", image, "/there", "/missing", "/none"], 2),
        (&["rm", "--json", image, "/missing", "/none"], 2),
        (&["df", "--json", image, "nowhere"], 1),
        (&["find", "--json", image, "/missing", "/there"], 1),
    ] {
        let output = uxfs(arguments);
        let words = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), words.lines().count()), (Some(1), told), "{arguments:?}: {words}");
        for line in words.lines() {
            let document: Value = serde_json::from_str(line).unwrap();
            let problem = &document["problem"];
            assert!(problem["exit_code"] == 1 && problem["kind"].is_string(), "{arguments:?}: {line}");
            assert!(!problem["message"].as_str().unwrap().contains("os error"), "{line}");
        }
        let documents = String::from_utf8(output.stdout).unwrap();
        assert!(documents.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{documents}");
    }
}
