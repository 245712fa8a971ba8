use super::*;
use crate::options::grammar::Group;

const GIB: u64 = 1 << 30;

fn layout(facts: &DeviceFacts, arguments: &[(Group, &str)]) -> Layout {
    let mut options = Options::default();
    arguments.iter().for_each(|(group, text)| options.add(*group, text).unwrap());
    Layout::resolve(&options, facts).unwrap().0
}

#[test]
fn one_gibibyte_as_everybody_knows_it() {
    let layout = layout(&DeviceFacts::file(GIB), &[]);
    assert_eq!(layout.groups, Groups { data_blocks: 262_144, blocks: 65536, count: 4 });
    assert_eq!(layout.log, Log { group: 2, start_block: 7, blocks: 16384, stripe_unit_bytes: 0 });
    assert_eq!((layout.root_inode(), layout.free_list_blocks), (128, 6));
    let geometry = layout.geometry();
    assert_eq!(geometry.features.judge().unwrap().write, Ok(()));
}

#[test]
fn a_raid_gives_its_stripe_unless_it_is_small_or_unwanted() {
    let mut facts = DeviceFacts::file(10 * GIB);
    (facts.stripe_unit_bytes, facts.stripe_width_bytes) = (64 << 10, 256 << 10);
    facts.kind = DeviceKind::Block { is_rotational: true };
    let asked = layout(&DeviceFacts::file(10 * GIB), &[(Group::Data, "su=64k,sw=4")]);
    assert_eq!(layout(&facts, &[]), asked);
    assert_eq!(layout(&facts, &[(Group::Data, "noalign")]).stripe, Stripe::default());
    facts.size_bytes = GIB;
    let (small, warnings) = Layout::resolve(&Options::default(), &facts).unwrap();
    assert_eq!(small.stripe, Stripe::default());
    assert!(matches!(warnings[..], [Warning::DeviceStripeIgnored { .. }]));
}

#[test]
fn a_fast_device_gets_groups_for_all_processors() {
    let mut facts = DeviceFacts::file(100 * GIB);
    facts.kind = DeviceKind::Block { is_rotational: false };
    facts.processors = 16;
    assert_eq!(layout(&facts, &[]).groups.count, 16);
    assert_eq!(layout(&facts, &[(Group::Data, "concurrency=0")]).groups.count, 4);
    facts.kind = DeviceKind::Block { is_rotational: true };
    assert_eq!(layout(&facts, &[]).groups.count, 4);
}

#[test]
fn sectors_are_those_of_the_medium_where_blocks_hold_them() {
    let mut facts = DeviceFacts::file(GIB);
    facts.physical_sector_bytes = 4096;
    assert_eq!(layout(&facts, &[]).sizes.sector_bytes, 4096);
    assert_eq!(layout(&facts, &[(Group::Block, "size=1k")]).sizes.sector_bytes, 512);
    facts.logical_sector_bytes = 4096;
    let mut options = Options::default();
    options.add(Group::Sector, "size=512").unwrap();
    let refused = Layout::resolve(&options, &facts).unwrap_err();
    assert_eq!(refused, LayoutError::SectorSmallerThanDevice { bytes: 512, device_bytes: 4096 });
}

#[test]
fn growing_needs_a_later_size_and_no_other_groups() {
    let mut options = Options::default();
    options.grow_to_bytes = Some(GIB / 2);
    let facts = DeviceFacts::file(GIB);
    assert!(matches!(Layout::resolve(&options, &facts), Err(LayoutError::GrowTo { .. })));
    options.grow_to_bytes = Some(10 << 40);
    let (layout, _) = Layout::resolve(&options, &facts).unwrap();
    assert_eq!((layout.groups.count, layout.groups.blocks), (1, 268_435_455));
    options.add(Group::Data, "agcount=4").unwrap();
    assert!(matches!(Layout::resolve(&options, &facts), Err(LayoutError::GrowToConflict { .. })));
}

#[test]
fn what_mkfs_xfs_prints_and_then_fails_to_make_is_refused() {
    let refused = |group, text| {
        let mut options = Options::default();
        options.add(group, text).unwrap();
        Layout::resolve(&options, &DeviceFacts::file(GIB)).unwrap_err()
    };
    let count = refused(Group::Data, "su=64m,sw=1,agcount=7");
    assert!(matches!(count, LayoutError::GroupCount { count: 7, .. }), "{count:?}");
    let root = refused(Group::Log, "agnum=0,su=256k");
    assert_eq!(root, LayoutError::NoRoomForRoot { block: 16400 });
}
