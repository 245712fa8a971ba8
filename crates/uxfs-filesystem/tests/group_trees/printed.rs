//! What `xfs_db` prints of a group.

use uxfs_format::units::AgNumber;
use uxfs_testkit::xfs_db::XfsDb;

pub struct Printed<'a> {
    pub db: &'a XfsDb,
    pub group: AgNumber,
    pub context: String,
}

impl Printed<'_> {
    /// Compares fields of a header.
    pub fn assert_fields(&self, header: &str, expected: &[(&str, u32)]) {
        let fields = self.db.print(&[format!("{header} {}", self.group)]).unwrap();
        for (name, value) in expected {
            let printed = fields.iter().find(|field| field.name == *name).map(|field| field.value.as_str());
            assert_eq!(printed, Some(value.to_string().as_str()), "{}: {header} {name}", self.context);
        }
    }

    /// All slots of the free list.
    pub fn free_list_slots(&self) -> Vec<u32> {
        let fields = self.db.print(&[format!("agfl {}", self.group)]).unwrap();
        let slots = fields.iter().find(|field| field.name.starts_with("bno[")).unwrap();
        let values = slots.value.split_whitespace().map(|slot| slot.split_once(':').unwrap().1);
        values.map(|value| value.parse().unwrap_or(u32::MAX)).collect()
    }

    /// Compares all records of a tree.
    pub fn assert_rows(&self, header: &str, root: &str, rows: impl Iterator<Item = String>) {
        let commands = [format!("{header} {}", self.group), format!("addr {root}"), "btdump".to_owned()];
        let printed: Vec<String> = records(&self.db.run(&commands).unwrap());
        let rows: Vec<String> = rows.collect();
        let context = &self.context;
        for (index, (ours, theirs)) in rows.iter().zip(&printed).enumerate() {
            assert_eq!(ours, theirs, "{context}: {root}, record {index}");
        }
        assert_eq!(rows.len(), printed.len(), "{context}: records of {root}");
    }
}

/// The records in `btdump`'s lines `1:[…]`; all other lines are about blocks.
fn records(text: &str) -> Vec<String> {
    let inner = |line: &str| {
        let (index, record) = line.split_once(":[")?;
        index.parse::<u32>().ok()?;
        Some(record.trim_end().strip_suffix(']')?.to_owned())
    };
    text.lines().filter_map(inner).collect()
}

/// `freesp`'s histogram: from, extents, blocks.
pub fn histogram(db: &XfsDb) -> Vec<[u64; 3]> {
    let text = db.run(&["freesp"]).unwrap();
    let numbers = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |index: usize| words.get(index)?.parse().ok();
        Some([number(0)?, number(2)?, number(3)?])
    };
    text.lines().filter_map(numbers).collect()
}
