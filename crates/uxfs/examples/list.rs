//! Lists an image as `ls -lR` does: `cargo run -p uxfs --example list -- IMAGE`.

use std::process::ExitCode;

use uxfs::{FileType, Image};

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let Some(path) = std::env::args_os().nth(1) else {
        eprintln!("usage: list IMAGE");
        return Ok(ExitCode::from(2));
    };
    let image = Image::open(path)?;
    let mut exit = ExitCode::SUCCESS;
    for entry in image.walk() {
        // An error is about one file; the rest can be listed.
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => {
                eprintln!("list: {error}");
                exit = ExitCode::FAILURE;
                continue;
            }
        };
        let metadata = entry.metadata();
        let letter = match metadata.file_type {
            FileType::Regular => '-',
            FileType::Directory => 'd',
            FileType::SymbolicLink => 'l',
            FileType::CharacterDevice => 'c',
            FileType::BlockDevice => 'b',
            FileType::Fifo => 'p',
            FileType::Socket => 's',
        };
        let (permissions, size) = (metadata.permissions, metadata.size_bytes);
        let (user, group) = (metadata.user, metadata.group);
        print!("{letter}{permissions:04o} {user:>5} {group:>5} {size:>12} {}", entry.path().escape_ascii());
        if metadata.is_symbolic_link() {
            print!(" -> {}", entry.link_target()?.escape_ascii());
        }
        println!();
    }
    Ok(exit)
}
