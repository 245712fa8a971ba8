//! Copies a tree out of an image: `cargo run -p uxfs --example extract -- IMAGE PATH DIRECTORY`.

use std::{os::unix::ffi::OsStrExt, process::ExitCode};

use uxfs::Image;

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let [image, path, directory] = arguments.as_slice() else {
        eprintln!("usage: extract IMAGE PATH DIRECTORY");
        return Ok(ExitCode::from(2));
    };
    let extracted = Image::open(image)?.extract(path.as_bytes(), directory)?;
    for problem in &extracted.problems {
        eprintln!("extract: {problem}");
    }
    println!(
        "{} directories, {} files, {} bytes",
        extracted.directories, extracted.files, extracted.data_bytes
    );
    let is_whole = extracted.problem_count == 0 || extracted.problems.iter().all(|problem| !problem.is_loss);
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
