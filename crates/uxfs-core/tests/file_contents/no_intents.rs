//! Exchanges on a file system without exchange intents: what one transaction can do.

use uxfs_core::{
    error::{Error, OperationError},
    file::{Touch, exchange::ExchangeRange},
    mount::LogOptions,
};
use uxfs_testkit::{
    image::{TestImage, file},
    judges::Judge,
    require,
    verdict::repair_is_silent,
};

const FEW: u64 = 40;
const MANY: u64 = 600;

#[test]
fn one_transaction_exchanges_without_intents() {
    require!(Judge::Mkfs, Judge::XfsRepair);
    for options in [&["-i", "exchange=0"][..], &["-i", "exchange=0", "-m", "reflink=0,rmapbt=0"]] {
        let image = TestImage::new("no intents", 64, options, 3);
        let file_system = image.mount_logged(LogOptions::default());
        let files: Vec<_> =
            (0..3).map(|index| file_system.open(file(&file_system, index)).unwrap()).collect();
        for (file, extents) in files.iter().zip([FEW, 1, MANY]) {
            for number in 0..extents {
                file_system.write(file, number * 16384, &[extents as u8; 4096], Touch::NOTHING).unwrap();
            }
        }
        let read = |index: usize| {
            let mut bytes = vec![0; file_system.stat(&files[index]).unwrap().size_bytes as usize];
            file_system.read(&files[index], 0, &mut bytes).unwrap();
            bytes
        };
        let before = [read(0), read(1), read(2)];
        let all = ExchangeRange { to_end: true, ..ExchangeRange::default() };
        let exchange =
            |other: usize, range| file_system.exchange_files(&files[0], &files[other], range, Touch::NOTHING);
        let cannot = |done| matches!(done, Err(Error::Operation(OperationError::CannotExchange)));
        assert!(cannot(exchange(1, &all)), "as in Linux");
        let without = ExchangeRange { without_intents: true, ..all };
        assert!(cannot(exchange(2, &without)), "that takes several transactions");
        assert!(read(0) == before[0] && read(2) == before[2]);
        let transactions = file_system.journal_counters().transactions;
        exchange(1, &without).unwrap();
        assert_eq!(file_system.journal_counters().transactions, transactions + 1, "{options:?}");
        assert!(read(0) == before[1] && read(1) == before[0]);
        file_system.close().unwrap();
        repair_is_silent(&image.path).unwrap();
    }
}
