use uxfs_format::log::operation::{Operation, OperationHeader, Operations};

use super::*;

/// Keeps what it is told.
#[derive(Debug, Default, PartialEq, Eq)]
struct Told {
    items: Vec<(u32, Vec<Vec<u8>>)>,
    commits: Vec<(u32, u32)>,
}

impl TransactionSink for Told {
    fn item(&mut self, transaction: &TransactionInfo, regions: &[&[u8]]) {
        self.items.push((transaction.id, regions.iter().map(|region| region.to_vec()).collect()));
    }

    fn commit(&mut self, transaction: &TransactionInfo) {
        self.commits.push((transaction.id, transaction.items));
    }
}

fn operation(id: u32, flags: u8, data: &[u8]) -> Vec<u8> {
    let mut bytes = id.to_be_bytes().to_vec();
    bytes.extend((data.len() as u32).to_be_bytes());
    bytes.extend([0x69, flags, 0, 0]);
    bytes.extend(data);
    bytes
}

fn header() -> Vec<u8> {
    [0x5452_414eu32, 40, 7, 1].iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// An item of `regions` regions whose first is 8 bytes long.
fn first_region(regions: u16) -> Vec<u8> {
    [vec![0x36, 0x12], regions.to_le_bytes().to_vec(), vec![1, 2, 3, 4]].concat()
}

/// Feeds the operations and gives what was told, or the first fault.
fn run(operations: &[Vec<u8>]) -> Result<Told, TransactionFault> {
    let payload = operations.concat();
    let mut told = Told::default();
    let mut assembler = TransactionAssembler::new();
    for operation in Operations::new(&payload, operations.len() as u32) {
        let operation: Operation<'_> = operation.unwrap();
        assembler.operation(&operation, Lsn::from_parts(1, 2), &mut told)?;
    }
    Ok(told)
}

const START: u8 = 1;
const COMMIT: u8 = 2;
const CONTINUE: u8 = 4;
const WAS_CONTINUED: u8 = 8;
const END: u8 = 16;

#[test]
fn items_are_put_together_from_regions_and_pieces() {
    let told = run(&[
        operation(7, START, &[]),
        operation(7, 0, &header()),
        operation(7, 0, &first_region(2)),
        operation(7, CONTINUE, b"one "),
        operation(7, WAS_CONTINUED | CONTINUE, b"two "),
        operation(7, WAS_CONTINUED | END, b"three"),
        operation(7, 0, &first_region(1)),
        operation(7, COMMIT, &[]),
    ])
    .unwrap();
    let expected = vec![(7, vec![first_region(2), b"one two three".to_vec()]), (7, vec![first_region(1)])];
    assert_eq!(told, Told { items: expected, commits: vec![(7, 2)] });
}

#[test]
fn header_and_first_region_may_be_split_too() {
    let (header, first) = (header(), first_region(1));
    let told = run(&[
        operation(7, START, &[]),
        operation(7, CONTINUE, &header[..5]),
        operation(7, WAS_CONTINUED | END, &header[5..]),
        operation(7, CONTINUE, &first[..2]),
        operation(7, WAS_CONTINUED | END, &first[2..]),
    ])
    .unwrap();
    assert_eq!(told, Told { items: vec![(7, vec![first])], commits: vec![] });
}

#[test]
fn transactions_may_interleave_and_those_of_before_are_passed_over() {
    let told = run(&[
        operation(9, 0, b"of a transaction that began before the tail"),
        operation(7, START, &[]),
        operation(8, START, &[]),
        operation(7, 0, &header()),
        operation(8, 0, &header()),
        operation(8, 0, &first_region(1)),
        operation(7, 0, &first_region(1)),
        operation(9, COMMIT, &[]),
        operation(8, COMMIT, &[]),
        operation(7, COMMIT, &[]),
    ])
    .unwrap();
    let items = vec![(8, vec![first_region(1)]), (7, vec![first_region(1)])];
    assert_eq!(told, Told { items, commits: vec![(8, 1), (7, 1)] });
}

#[test]
fn each_check_rejects_its_damage() {
    use TransactionFault as F;
    let transaction = 7;
    let start = operation(7, START, &[]);
    let begun = [start.clone(), operation(7, 0, &header())];
    let after = |operations: &[Vec<u8>]| run(&[&begun[..], operations].concat()).unwrap_err();
    assert_eq!(run(&[start.clone(), start.clone()]), Err(F::StartedTwice { transaction }));
    let fault = run(&[start.clone(), operation(7, 0, &[0; 16])]).unwrap_err();
    assert_eq!(fault, F::Magic { transaction, magic: 0 });
    let fault = run(&[start.clone(), operation(7, 0, &header()[..8])]).unwrap_err();
    assert_eq!(fault, F::HeaderLength { transaction, length_bytes: 8 });
    let fault = after(&[operation(7, WAS_CONTINUED, b"none")]);
    assert_eq!(fault, F::NothingToContinue { transaction });
    let fault = after(&[operation(7, CONTINUE, b"more"), operation(7, 0, b"next")]);
    assert_eq!(fault, F::NothingToContinue { transaction });
    let fault = after(&[operation(7, 0, &first_region(2)), operation(7, COMMIT, &[])]);
    assert_eq!(fault, F::IncompleteItem { transaction, found: 1, expected: 2 });
    for regions in [0, MAX_REGIONS as u16 + 1] {
        let fault = after(&[operation(7, 0, &first_region(regions))]);
        assert_eq!(fault, F::ItemRegions { transaction, regions: regions.into(), length_bytes: 8 });
    }
    let fault = after(&[operation(7, 0, &[1])]);
    assert_eq!(fault, F::ItemRegions { transaction, regions: 0, length_bytes: 1 });
    let large = operation(7, WAS_CONTINUED | CONTINUE, &vec![0; 100_000]);
    let pieces = [vec![operation(7, CONTINUE, &first_region(1))], vec![large; 6]].concat();
    assert_eq!(after(&pieces), F::ItemTooLarge { transaction, limit_bytes: MAX_ITEM_BYTES });
    let many: Vec<_> = (0..=MAX_OPEN as u32).map(|id| operation(id, START, &[])).collect();
    assert_eq!(run(&many), Err(F::TooManyOpen { limit: MAX_OPEN as u32 }));
}

#[test]
fn a_damaged_transaction_is_dropped_and_the_others_go_on() {
    let payload = [
        operation(7, START, &[]),
        operation(8, START, &[]),
        operation(7, 0, &[0; 16]),
        operation(7, 0, &first_region(1)),
        operation(7, COMMIT, &[]),
        operation(8, 0, &header()),
        operation(8, COMMIT, &[]),
    ];
    let bytes = payload.concat();
    let (mut told, mut assembler) = (Told::default(), TransactionAssembler::new());
    let mut faults = 0;
    for operation in Operations::new(&bytes, payload.len() as u32) {
        let operation = operation.unwrap();
        faults += u32::from(assembler.operation(&operation, Lsn::default(), &mut told).is_err());
    }
    assert_eq!((faults, told), (1, Told { items: vec![], commits: vec![(8, 0)] }));
    assert_eq!(assembler.open().count(), 0);
}

const _: () = assert!(size_of::<OperationHeader>() == 12);

/// Feeds the operations of records that lie two blocks apart; before a record without operations, some are missing.
fn run_despite_holes(records: &[&[Vec<u8>]]) -> (Told, TransactionAssembler) {
    let (mut told, mut assembler) = (Told::default(), TransactionAssembler::despite_holes());
    for (number, operations) in (1..).zip(records) {
        if operations.is_empty() {
            assembler.interrupt();
        }
        let payload = operations.concat();
        for operation in Operations::new(&payload, operations.len() as u32) {
            let _ = assembler.operation(&operation.unwrap(), Lsn::from_parts(1, number * 2), &mut told);
        }
    }
    (told, assembler)
}

#[test]
fn items_behind_a_hole_are_found_again() {
    let (told, _) = run_despite_holes(&[
        &[operation(7, START, &[]), operation(7, 0, &header()), operation(7, CONTINUE, &first_region(3))],
        &[],
        &[
            operation(7, WAS_CONTINUED | END, b"the rest of what is missing"),
            operation(7, 0, b"and a region"),
        ],
        &[operation(7, 0, &first_region(1)), operation(7, COMMIT, &[])],
    ]);
    assert_eq!(told, Told { items: vec![(7, vec![first_region(1)])], commits: vec![(7, 1)] });
}

#[test]
fn a_commit_ends_what_started_before_it_and_lost_its_own() {
    let item = |id: u32| operation(id, 0, &first_region(1));
    let (mut told, mut assembler) = run_despite_holes(&[
        &[operation(7, START, &[]), operation(7, 0, &header()), item(7)],
        &[],
        &[item(8)],
        &[operation(9, START, &[]), operation(9, 0, &header()), item(9), operation(9, COMMIT, &[])],
        &[operation(10, START, &[]), operation(10, 0, &header()), item(10)],
        &[],
    ]);
    assert_eq!(told.commits, vec![(7, 1), (8, 1), (9, 1)]);
    assert_eq!(assembler.open().map(|open| open.start).collect::<Vec<_>>(), [Lsn::from_parts(1, 10)]);
    assembler.commit_until(Lsn::from_parts(1, 9), &mut told);
    assert_eq!(told.commits.len(), 3);
    assembler.commit_until(Lsn::from_parts(1, 10), &mut told);
    assert_eq!(told.commits.last(), Some(&(10, 1)));
}

#[test]
fn a_start_that_is_missing_has_the_number_of_no_record() {
    let item = operation(8, 0, &first_region(1));
    let (_, assembler) = run_despite_holes(&[&[operation(7, START, &[])], &[], &[item]]);
    let starts: Vec<Lsn> = assembler.open().map(|open| open.start).collect();
    assert_eq!(starts, [Lsn::from_parts(1, 2), Lsn::from_parts(1, 3)]);
}
