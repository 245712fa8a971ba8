//! Changes of attributes beside the queue and in intents.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use super::*;

fn change<'a>(operation: AttributeOperation, name: &'a [u8], value: &'a [u8]) -> AttributeChange<'a> {
    let namespace = if operation.code() > 3 { Namespace::Parent } else { Namespace::Security };
    AttributeChange {
        operation,
        inode: InodeNumber::new(131),
        generation: 7,
        namespace,
        name,
        new_name: None,
        value,
        new_value: None,
    }
}

fn changes() -> [AttributeChange<'static>; 6] {
    let replaced = change(AttributeOperation::ReplaceParent, b"old", b"0123456789ab");
    [
        change(AttributeOperation::Set, b"selinux", b"context"),
        change(AttributeOperation::Remove, b"selinux", b""),
        change(AttributeOperation::Replace, b"x", b"y"),
        change(AttributeOperation::SetParent, b"name", b"ABCDEFGHIJKL"),
        change(AttributeOperation::RemoveParent, b"name", b"ABCDEFGHIJKL"),
        AttributeChange { new_name: Some(b"new one"), new_value: Some(b"abcdefghijkl"), ..replaced },
    ]
}

#[test]
fn names_and_values_come_out_as_they_went_in() {
    let mut queue = DeferredWork::default();
    for _ in 0..2 {
        changes().iter().for_each(|change| queue.push_attribute(change));
        for expected in changes() {
            let step = queue.begin_step().unwrap();
            let [Work::Attribute(stored)] = step[..] else { panic!("a step of its own: {step:?}") };
            assert_eq!(queue.attribute(&stored), expected);
            queue.end_step(step);
        }
        assert_eq!(queue.begin_step(), None);
        assert!(queue.text.is_empty(), "memory is used again");
    }
}

#[test]
fn intents_are_as_linux_writes_them() {
    for (change, regions) in changes().into_iter().zip([3, 2, 3, 3, 3, 5]) {
        let format = change.format(99);
        assert_eq!(
            (format.region_count.get(), format.inode.get(), format.generation.get()),
            (regions, 131, 7)
        );
        let (operation, name, new_name) = (change.operation, change.name, change.new_name);
        let (value, new_value) = (change.value, change.new_value);
        let intent = AttributeIntent { format: &format, operation, name, new_name, value, new_value };
        assert_eq!(format.attribute_operation(), Some(operation));
        let lengths = (name.len() as u32, new_name.map(|name| name.len() as u32));
        assert_eq!(format.name_lengths(), lengths);
        assert_eq!(AttributeChange::from_intent(&intent), Some(change));
    }
}
