//! SEEK_DATA and SEEK_HOLE, also of what the kernel has not written back.

use std::{
    fs::{self, File},
    os::unix::fs::{FileExt, MetadataExt},
};

use rustix::{
    fs::{SeekFrom, seek},
    io::Errno,
};

use super::{Judge, Served, all_ways, require, run};

const MEBIBYTE: u64 = 1 << 20;

/// Where data and holes begin, up to the end.
fn borders(file: &File) -> Vec<(u64, u64)> {
    let (mut borders, mut at) = (Vec::new(), 0);
    loop {
        let data = match seek(file, SeekFrom::Data(at)) {
            Err(Errno::NXIO) => return borders,
            data => data.unwrap(),
        };
        at = seek(file, SeekFrom::Hole(data)).unwrap();
        borders.push((data, at));
    }
}

#[test]
fn holes_are_found_beside_what_is_only_in_the_cache() {
    require!(Judge::Mkfs, Judge::XfsRepair, Judge::Kernel);
    all_ways(|options| {
        let served = Served::new("holes", 300);
        served.used(options, |root| {
            let path = root.join("file");
            let file = File::create_new(&path).unwrap();
            file.set_len(8 * MEBIBYTE).unwrap();
            assert_eq!(borders(&file), []);
            file.write_all_at(&[1; 4096], MEBIBYTE).unwrap();
            file.write_all_at(&[2; 8192], 5 * MEBIBYTE).unwrap();
            let expected = [(MEBIBYTE, MEBIBYTE + 4096), (5 * MEBIBYTE, 5 * MEBIBYTE + 8192)];
            assert_eq!(borders(&file), expected, "{options}");
            // Through a handle that only reads, while one that writes is open.
            file.write_all_at(&[3; 4096], 7 * MEBIBYTE).unwrap();
            let all = [expected.as_slice(), &[(7 * MEBIBYTE, 7 * MEBIBYTE + 4096)]].concat();
            assert_eq!(borders(&File::open(&path).unwrap()), all, "{options}");
            drop(file);
            assert_eq!(borders(&File::open(&path).unwrap()), all, "{options}");
            let copy = root.join("copy");
            run("cp", &["--reflink=never", path.to_str().unwrap(), copy.to_str().unwrap()]);
            assert_eq!(fs::read(&copy).unwrap(), fs::read(&path).unwrap());
            assert!(
                fs::metadata(&copy).unwrap().blocks() * 512 < MEBIBYTE,
                "{options}: a copy without holes"
            );
        });
        served.image.must_be_sound();
    });
}
