//! No options and no device make the layout panic, and what it gives can be written and verified.

use uxfs_block::engine::memory::MemoryDevice;
use uxfs_format::superblock::{Copy, Superblock};
use uxfs_mkfs::{
    empty,
    identity::Identity,
    layout::{DeviceFacts, DeviceKind, Layout},
    options::{Options, Source, grammar::Setting},
};
use uxfs_testkit::seeds::{Random, Seed};

const UNITS: [&str; 10] = ["", "b", "s", "k", "m", "g", "t", "p", "e", "x"];

/// A number of any magnitude, near a power of two more often than not.
fn number(random: &mut Random) -> u64 {
    let power = 1u64 << random.below(64);
    match random.below(4) {
        0 => power,
        1 => power.wrapping_sub(1),
        2 => power.wrapping_add(random.below(3)),
        _ => random.next_u64() >> random.below(64),
    }
}

fn options(random: &mut Random) -> Options {
    let mut options = Options::default();
    options.allow_unsupported = random.below(3) > 0;
    if random.below(8) == 0 {
        options.grow_to_bytes = Some(number(random));
    }
    if random.below(4) == 0 {
        options.size_bytes = Some(number(random));
    }
    for _ in 0..random.below(6) {
        let setting = Setting::ALL[random.below(Setting::ALL.len() as u64) as usize];
        let unit = UNITS[random.below(UNITS.len() as u64) as usize];
        let text = format!("{}{unit}", number(random));
        // Most are refused here already.
        let _ = options.set(setting, Some(&text), Source::Given);
    }
    options
}

fn facts(random: &mut Random) -> DeviceFacts {
    let mut facts = DeviceFacts::file(number(random) | 1 << 24);
    if random.below(2) == 0 {
        facts.kind = DeviceKind::Block { is_rotational: random.below(2) == 0 };
        facts.processors = number(random) as u32;
        facts.logical_sector_bytes = 512 << random.below(4);
        facts.physical_sector_bytes = facts.logical_sector_bytes << random.below(4);
        (facts.stripe_unit_bytes, facts.stripe_width_bytes) = (number(random), number(random));
    }
    facts
}

#[test]
fn no_numbers_make_the_layout_panic() {
    let seed = Seed::from_environment("no_numbers_make_the_layout_panic", 7);
    let mut random = seed.random();
    let mut made = 0;
    for _ in 0..20_000 {
        let (options, facts) = (options(&mut random), facts(&mut random));
        let Ok((layout, _)) = Layout::resolve(&options, &facts) else { continue };
        made += 1;
        assert!(layout.data_bytes() <= facts.size_bytes);
        let last = layout.groups.count as u32 - 1;
        for group in [0, layout.log.group, last] {
            let space = layout.space(group);
            let used: u32 = space.used.iter().map(|(run, _)| run.length).sum();
            assert_eq!(used + space.free_blocks(), layout.group_blocks(group));
        }
    }
    assert!(made > 1000, "only {made} of the options were possible");
}

#[test]
fn what_is_written_verifies() {
    let seed = Seed::from_environment("what_is_written_verifies", 11);
    let mut random = seed.random();
    let (identity, _) = Identity::from_environment(None, |_| None::<String>);
    let mut made = 0;
    while made < 40 {
        let mut options = options(&mut random);
        (options.allow_unsupported, options.size_bytes, options.grow_to_bytes) = (true, None, None);
        let size_bytes = (16 << 20) + random.below(40 << 20);
        let Ok((layout, _)) = Layout::resolve(&options, &DeviceFacts::file(size_bytes)) else { continue };
        made += 1;
        let device = MemoryDevice::new(vec![0; size_bytes as usize]);
        empty::format(&device, &layout, &identity).unwrap();
        let mut bytes = vec![0; 65536];
        uxfs_block::device::BlockDevice::read(&device, 0, &mut bytes).unwrap();
        let (superblock, sector) = Superblock::parse(&bytes).unwrap();
        superblock.verify(sector, Copy::Primary).unwrap();
    }
}
