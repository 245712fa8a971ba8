#![allow(clippy::unwrap_used)]

use super::*;

#[test]
fn parts_of_sums_are_joined_in_order_whether_they_fit_into_memory_or_not() {
    for memory_bytes in [0, 64 << 20] {
        let usage = Usage {
            kinds: QuotaKind::ALL.to_vec(),
            left_out: Vec::new(),
            has_metadata_directory: false,
            sorter: Mutex::new(Ok(Sorter::new(memory_bytes))),
        };
        for thread in 1..=3 {
            let mut sums = ThreadUsage::default();
            for id in (0..60_000_u32).rev().map(|id| id.wrapping_mul(65_599)) {
                let used = Used { blocks: thread, inodes: 1, realtime_blocks: u64::from(id) };
                sums.sums.entry((QuotaKind::Group, id)).or_default().add(used);
            }
            sums.sums.insert((QuotaKind::Project, 7), Used { blocks: u64::MAX, ..Used::default() });
            usage.take(&mut sums);
        }
        let mut totals = usage.into_totals().unwrap();
        let mut before = None;
        let mut count = 0;
        while let Some((owner, used)) = totals.pop().unwrap() {
            assert!(before < Some(owner));
            before = Some(owner);
            count += 1;
            let expected = match owner {
                (QuotaKind::Group, id) => Used { blocks: 6, inodes: 3, realtime_blocks: 3 * u64::from(id) },
                _ => Used { blocks: u64::MAX - 2, ..Used::default() },
            };
            assert_eq!(used, expected, "{owner:?}");
        }
        assert_eq!((count, totals.peek()), (60_001, None));
    }
}
