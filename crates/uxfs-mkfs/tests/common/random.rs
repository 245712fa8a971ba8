//! Random sizes and options.

use uxfs_testkit::seeds::Random;

/// Values of each kind of option; one list gives at most one.
const LISTS: &[&[&str]] = &[
    &["-b size=1k", "-b size=2k", "-b size=4k", "-b size=8k", "-b size=16k", "-b size=32k", "-b size=64k"],
    &["-s size=512", "-s size=1k", "-s size=2k", "-s size=4k", "-s size=8k", "-s size=32k"],
    &["-i size=512", "-i size=1024", "-i size=2048", "-i perblock=2", "-i perblock=8", "-i perblock=32"],
    &["-n size=4k", "-n size=8k", "-n size=16k", "-n size=64k", "-n size=2b"],
    &["-n parent=0", "-n parent=1"],
    &["-n version=ci"],
    &["-m rmapbt=0", "-m rmapbt=1"],
    &["-m reflink=0", "-m reflink=1"],
    &[
        "-m finobt=0",
        "-m finobt=1",
        "-m finobt=0,inobtcount=0",
        "-m finobt=0,inobtcount=1",
        "-m inobtcount=0",
    ],
    &["-m bigtime=0"],
    &["-m autofsck=none", "-m autofsck=check", "-m autofsck=optimize", "-m autofsck=repair", "-m autofsck=0"],
    &["-i sparse=0"],
    &["-i nrext64=0"],
    &["-i exchange=0"],
    &["-i maxpct=0", "-i maxpct=33"],
    &[
        "-i max_atomic_write=4k",
        "-i max_atomic_write=64k",
        "-i max_atomic_write=1m",
        "-i max_atomic_write=16m",
    ],
    &[
        "-d agcount=2",
        "-d agcount=3",
        "-d agcount=6",
        "-d agcount=13",
        "-d agcount=40",
        "-d agsize=70m",
        "-d agsize=16m",
        "-d agsize=123m",
        "-d agsize=500m",
        "-d concurrency=6",
        "-d concurrency=30",
    ],
    &[
        "-d su=4k,sw=2",
        "-d su=16k,sw=3",
        "-d su=64k,sw=1",
        "-d su=64k,sw=8",
        "-d su=192k,sw=3",
        "-d su=256k,sw=5",
        "-d su=1m,sw=4",
        "-d su=3m,sw=2",
        "-d sunit=24,swidth=48",
        "-d noalign",
    ],
    &["-l su=4k", "-l su=16k", "-l su=24k", "-l su=64k", "-l su=128k", "-l su=256k", "-l sunit=64"],
    &["-l agnum=0", "-l agnum=1", "-l agnum=2"],
    &[
        "-l size=64m",
        "-l size=100m",
        "-l size=20000b",
        "-l size=70000000",
        "-l size=73728000",
        "-l concurrency=10",
        "-l concurrency=300",
        "-l size=9m",
    ],
    &[
        "-d extszinherit=16",
        "-d extszinherit=100000",
        "-d projinherit=5",
        "-d cowextsize=9",
        "-d daxinherit=1",
    ],
    &["-r extsize=16k", "-r extsize=2m", "-r noalign"],
    &["-L label"],
];

/// A size in bytes, and options.
pub fn case(random: &mut Random) -> (u64, String) {
    let size_bytes = match random.below(8) {
        0 => (16 << 20) + random.below(300 << 20),
        1 => (300 + random.below(300)) << 20,
        2 => (1 << 30) + random.below(8) * 512,
        3 => (1 + random.below(20)) << 30,
        4 => (1 + random.below(900)) << 30,
        5 => (1 + random.below(14)) << 40,
        6 => (300 << 20) + random.below(40 << 30),
        _ => 1 << 30,
    };
    let mut words = Vec::new();
    if size_bytes < 300 << 20 || random.below(6) == 0 {
        words.push("--unsupported");
    }
    for list in LISTS {
        if random.below(6) == 0 {
            words.push(list[random.below(list.len() as u64) as usize]);
        }
    }
    (size_bytes, words.join(" "))
}
