//! Intents on attributes. A change of an attribute can take several transactions, each with an intent for the rest, and
//! it may be finished but for its end: so what an intent wants done may be done already.

use uxfs_format::{
    attribute::{
        flags::{AttributeFlags, Namespace},
        parent_pointer::ParentRecord,
    },
    log::{
        attribute::{AttributeIntent, AttributeOperation},
        item::{ItemType, LogItemFault},
    },
    units::InodeNumber,
};
use zerocopy::FromBytes;

use super::intents::damaged;
use uxfs_engine::{
    attribute::{AttributeName, SetMode, Target},
    inode::edit::EditInode,
    transaction::Transaction,
};
use uxfs_volume::{
    error::{Error, OperationError, Result},
    parent_pointer::ParentPointer,
};

/// Finishes a change of attributes.
#[doc(alias = "xfs_attr_recover_work")]
pub(super) fn finish(transaction: &mut Transaction<'_>, intent: &AttributeIntent<'_>) -> Result<()> {
    use AttributeOperation as Operation;
    let mut inode = transaction.load_inode(InodeNumber::new(intent.format.inode.get()))?;
    let flags = || {
        let flags = intent.format.filter.get().into();
        damaged(LogItemFault::Flags { item: ItemType::AttributeIntent, flags })
    };
    let bits = u8::try_from(intent.format.filter.get()).map_err(|_| flags())?;
    let namespace = AttributeFlags::from_bits_retain(bits).namespace().ok_or_else(flags)?;
    let is_of_parent =
        matches!(intent.operation, Operation::SetParent | Operation::RemoveParent | Operation::ReplaceParent);
    if is_of_parent != (namespace == Namespace::Parent) {
        return Err(flags());
    }
    // Another file may have got the number.
    if is_of_parent && inode.core.generation.get() != intent.format.generation.get() {
        let inode = intent.format.inode.get();
        return Err(damaged(LogItemFault::NoSuchInode { item: ItemType::AttributeIntent, inode }));
    }
    let name = AttributeName { namespace, name: intent.name };
    remove_half_made(transaction, &mut inode, intent, &name)?;
    match intent.operation {
        Operation::Set | Operation::Replace => {
            transaction.attributes().set_attribute(&mut inode, name, intent.value, SetMode::Upsert)?;
        }
        Operation::Remove => unless_gone(transaction.attributes().remove_attribute(&mut inode, name))?,
        Operation::SetParent => {
            unless_there(
                transaction
                    .parent_pointers()
                    .add_parent_pointer(&mut inode, pointer(intent.name, intent.value)?),
            )?;
        }
        Operation::RemoveParent => {
            unless_gone(
                transaction
                    .parent_pointers()
                    .remove_parent_pointer(&mut inode, pointer(intent.name, intent.value)?),
            )?;
        }
        Operation::ReplaceParent => {
            let old = pointer(intent.name, intent.value)?;
            let new = intent.new_name.zip(intent.new_value).ok_or(OperationError::NoSuchAttribute)?;
            let new = pointer(new.0, new.1)?;
            if old != new {
                unless_gone(transaction.parent_pointers().remove_parent_pointer(&mut inode, old))?;
                unless_there(transaction.parent_pointers().add_parent_pointer(&mut inode, new))?;
            }
        }
    }
    transaction.store_inode(&mut inode)
}

/// Linux marks an attribute while it is being made or removed: what bears the mark is neither there nor gone.
fn remove_half_made(
    transaction: &mut Transaction<'_>,
    inode: &mut EditInode,
    intent: &AttributeIntent<'_>,
    name: &AttributeName<'_>,
) -> Result<()> {
    if name.namespace != Namespace::Parent {
        return transaction.attributes().remove_half_made(inode, &Target::of(name)?);
    }
    let geometry = transaction.engine().geometry();
    let new = intent.new_name.zip(intent.new_value);
    for (name, value) in [(intent.name, intent.value)].into_iter().chain(new) {
        transaction
            .attributes()
            .remove_half_made(inode, &Target::of_parent_pointer(name, value, geometry))?;
    }
    Ok(())
}

/// Nothing to remove: it was removed.
fn unless_gone(result: Result<()>) -> Result<()> {
    match result {
        Err(Error::Operation(OperationError::NoSuchAttribute)) => Ok(()),
        result => result,
    }
}

/// Nothing to add: it was added.
fn unless_there(result: Result<()>) -> Result<()> {
    match result {
        Err(Error::Operation(OperationError::Exists)) => Ok(()),
        result => result,
    }
}

fn pointer<'a>(name: &'a [u8], value: &[u8]) -> Result<ParentPointer<'a>> {
    let record = ParentRecord::ref_from_bytes(value).map_err(|_| {
        let (name_bytes, value_bytes) = (name.len() as u32, value.len() as u32);
        damaged(LogItemFault::AttributeLengths { name_bytes, value_bytes })
    })?;
    let parent = InodeNumber::new(record.inode.get());
    Ok(ParentPointer { parent, generation: record.generation.get(), name })
}
