//! Builds an image of a directory or an archive, as large as it needs to be, the same bytes each time:
//! `cargo run -p uxfs --example build -- SOURCE IMAGE`.

use std::process::ExitCode;

use uxfs::Maker;

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let [source, image] = arguments.as_slice() else {
        eprintln!("usage: build SOURCE IMAGE");
        return Ok(ExitCode::from(2));
    };
    let made = Maker::new().source(source).reproducible().make(image)?;
    println!("{} MiB: {} directories, {} files", made.size_bytes >> 20, made.directories, made.files);
    Ok(ExitCode::SUCCESS)
}
