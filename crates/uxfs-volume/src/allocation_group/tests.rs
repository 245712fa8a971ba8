use super::free_space::{FreeSpaceBucket, FreeSpaceHistogram};

#[test]
fn histograms_count_in_powers_of_two() {
    let mut histogram = FreeSpaceHistogram::default();
    [1, 2, 3, 4, 1000, u32::MAX, 0].into_iter().for_each(|length| histogram.add(length));
    let mut other = FreeSpaceHistogram::default();
    other.add(1);
    histogram.merge(&other);
    let bucket = |extents, blocks| FreeSpaceBucket { extents, blocks };
    let buckets: Vec<_> = histogram.buckets().collect();
    let largest = (1 << 31, bucket(1, u32::MAX.into()));
    assert_eq!(
        buckets,
        [(1, bucket(2, 2)), (2, bucket(2, 5)), (4, bucket(1, 4)), (512, bucket(1, 1000)), largest]
    );
    assert_eq!(histogram.total(), bucket(7, 1011 + u64::from(u32::MAX)));
}
