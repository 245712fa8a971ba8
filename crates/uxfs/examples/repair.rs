//! Checks an image, and repairs it where that is needed: `cargo run -p uxfs --example repair -- IMAGE`.

use std::process::ExitCode;

use uxfs::{Certainty, Repair};

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let Some(path) = std::env::args_os().nth(1) else {
        eprintln!("usage: repair IMAGE");
        return Ok(ExitCode::from(2));
    };
    let checked = uxfs::check(&path)?;
    println!("{} inodes, {} findings", checked.inodes, checked.finding_count);
    if checked.is_sound() {
        return Ok(ExitCode::SUCCESS);
    }
    let repair = Repair::plan(&path)?;
    for change in repair.changes() {
        println!("{change}");
        if let Some(alternative) = &change.alternative {
            println!("    a guess; otherwise {alternative}");
        }
    }
    if !repair.is_complete() {
        for finding in repair.remaining() {
            println!("left: {finding}");
        }
        return Ok(ExitCode::FAILURE);
    }
    let losses = repair.changes().iter().filter(|change| change.certainty == Certainty::Loss).count();
    let written = repair.write()?;
    println!("{} bytes written, {losses} losses", written.changed_bytes);
    if let Some(undo_file) = written.undo_file {
        println!("the old bytes are in {}", undo_file.display());
    }
    Ok(ExitCode::SUCCESS)
}
