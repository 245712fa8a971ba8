//! From the body of a request to an operation. Operations of open files are decoded in [`decode_file`].

use rustix::fs::OFlags;
use uxfs_format::inode::Timestamp;

use super::{
    body::Body,
    decode_file,
    extension::Extensions,
    fault::RequestFault,
    forget::ForgetList,
    operation::{
        Create, GetExtendedAttribute, Link, MakeDirectory, MakeNode, NotifyReply, Operation, Rename,
        SetAttributes, SetExtendedAttribute, Statx, SymbolicLink, TimeChange,
    },
};
use crate::protocol::{
    device_number::decode_device,
    flags::{
        AccessMask, AttributeChanges, GetAttributesFlags, OpenRequestFlags, RenameFlags,
        SetExtendedAttributeFlags, SetExtendedAttributeMode,
    },
    initialization::{InitRequest, Negotiated},
    opcode::Opcode,
    wire::{
        attributes::{GetAttributesIn, SetAttributesIn, StatxIn},
        extended_attributes::{
            AccessIn, GetExtendedAttributeIn, SetExtendedAttributeIn, SetExtendedAttributeShortIn,
        },
        header::{ForgetIn, InterruptIn},
        names::{CreateIn, LinkIn, MakeDirectoryIn, MakeNodeIn, Rename2In, RenameIn},
        notifications::NotifyRetrieveIn,
    },
};

const NANOSECONDS_PER_SECOND: u32 = 1_000_000_000;

type Decoded<'a> = Result<Operation<'a>, RequestFault>;

/// Decodes what follows the header.
pub(super) fn operation(opcode: Opcode, body: Body<'_>, negotiated: Negotiated) -> Decoded<'_> {
    Ok(match opcode {
        Opcode::Lookup => Operation::Lookup(body.only_name()?),
        Opcode::Unlink => Operation::Unlink(body.only_name()?),
        Opcode::RemoveDirectory => Operation::RemoveDirectory(body.only_name()?),
        Opcode::GetAttributes => get_attributes(body)?,
        Opcode::SetAttributes => Operation::SetAttributes(set_attributes(&body.only_structure()?)?),
        Opcode::Statx => statx(body)?,
        Opcode::SymbolicLink => symbolic_link(body)?,
        Opcode::MakeNode => make_node(body)?,
        Opcode::MakeDirectory => make_directory(body)?,
        Opcode::Create => Operation::Create(create(body, Body::name)?),
        Opcode::TemporaryFile => Operation::TemporaryFile(create(body, Body::text)?),
        Opcode::Rename => rename(body)?,
        Opcode::Rename2 => rename2(body)?,
        Opcode::Link => link(body)?,
        Opcode::SetExtendedAttribute => set_extended_attribute(body, negotiated)?,
        Opcode::GetExtendedAttribute => get_extended_attribute(body)?,
        Opcode::ListExtendedAttributes => {
            Operation::ListExtendedAttributes(body.only_structure::<GetExtendedAttributeIn>()?.size_bytes)
        }
        Opcode::RemoveExtendedAttribute => remove_extended_attribute(body)?,
        Opcode::Access => {
            Operation::Access(AccessMask::from_bits_retain(body.only_structure::<AccessIn>()?.mask))
        }
        Opcode::Forget => Operation::Forget(body.only_structure::<ForgetIn>()?.lookups),
        Opcode::BatchForget => Operation::BatchForget(ForgetList::parse(body)?),
        Opcode::Interrupt => Operation::Interrupt(body.only_structure::<InterruptIn>()?.unique),
        Opcode::Initialize => initialize(body)?,
        Opcode::NotifyReply => notify_reply(body)?,
        Opcode::ReadLink => without_body(body, Operation::ReadLink)?,
        Opcode::StatFileSystem => without_body(body, Operation::StatFileSystem)?,
        Opcode::Destroy => without_body(body, Operation::Destroy)?,
        other => return decode_file::operation(other, body),
    })
}

fn without_body<'a>(body: Body<'a>, operation: Operation<'a>) -> Decoded<'a> {
    body.end()?;
    Ok(operation)
}

fn get_attributes(body: Body<'_>) -> Decoded<'_> {
    let GetAttributesIn { flags, handle, .. } = body.only_structure()?;
    Ok(Operation::GetAttributes(attributes_handle(flags, handle)))
}

fn statx(body: Body<'_>) -> Decoded<'_> {
    let StatxIn { flags, handle, statx_flags, statx_mask, .. } = body.only_structure()?;
    Ok(Operation::Statx(Statx {
        handle: attributes_handle(flags, handle),
        flags: statx_flags,
        mask: statx_mask,
    }))
}

fn attributes_handle(flags: u32, handle: u64) -> Option<u64> {
    let flags = GetAttributesFlags::from_bits_retain(flags);
    flags.contains(GetAttributesFlags::HANDLE).then_some(handle)
}

fn set_attributes(wire: &SetAttributesIn) -> Result<SetAttributes, RequestFault> {
    let changes = AttributeChanges::from_bits_retain(wire.valid);
    let has = |change| changes.contains(change);
    let access = time_change(
        changes,
        (AttributeChanges::ACCESS_TIME, AttributeChanges::ACCESS_NOW),
        (wire.access_seconds, wire.access_nanoseconds),
    )?;
    let modification = time_change(
        changes,
        (AttributeChanges::MODIFICATION_TIME, AttributeChanges::MODIFICATION_NOW),
        (wire.modification_seconds, wire.modification_nanoseconds),
    )?;
    let change = has(AttributeChanges::CHANGE_TIME)
        .then(|| timestamp(wire.change_seconds, wire.change_nanoseconds))
        .transpose()?;
    Ok(SetAttributes {
        changes,
        handle: has(AttributeChanges::HANDLE).then_some(wire.handle),
        mode: has(AttributeChanges::MODE).then_some(wire.mode),
        user_id: has(AttributeChanges::USER).then_some(wire.user_id),
        group_id: has(AttributeChanges::GROUP).then_some(wire.group_id),
        size_bytes: has(AttributeChanges::SIZE).then_some(wire.size_bytes),
        access,
        modification,
        change,
        lock_owner: has(AttributeChanges::LOCK_OWNER).then_some(wire.lock_owner),
    })
}

/// The change of a time that has one bit for a given time, and another for now.
fn time_change(
    changes: AttributeChanges,
    (at, now): (AttributeChanges, AttributeChanges),
    (seconds, nanoseconds): (u64, u32),
) -> Result<Option<TimeChange>, RequestFault> {
    if changes.contains(now) {
        return Ok(Some(TimeChange::Now));
    }
    if !changes.contains(at) {
        return Ok(None);
    }
    timestamp(seconds, nanoseconds).map(|time| Some(TimeChange::At(time)))
}

fn timestamp(seconds: u64, nanoseconds: u32) -> Result<Timestamp, RequestFault> {
    if nanoseconds >= NANOSECONDS_PER_SECOND {
        return Err(RequestFault::Nanoseconds { nanoseconds });
    }
    Ok(Timestamp { seconds: seconds.cast_signed(), nanoseconds })
}

fn symbolic_link(mut body: Body<'_>) -> Decoded<'_> {
    let name = body.name()?;
    let target = body.text()?;
    let extensions = Extensions::parse(body.extensions()?)?;
    Ok(Operation::SymbolicLink(SymbolicLink { name, target, extensions }))
}

fn make_node(mut body: Body<'_>) -> Decoded<'_> {
    let MakeNodeIn { mode, device, umask, .. } = body.structure()?;
    let name = body.name()?;
    let extensions = Extensions::parse(body.extensions()?)?;
    let device = decode_device(device);
    Ok(Operation::MakeNode(MakeNode { name, mode, umask, device, extensions }))
}

fn make_directory(mut body: Body<'_>) -> Decoded<'_> {
    let MakeDirectoryIn { mode, umask } = body.structure()?;
    let name = body.name()?;
    let extensions = Extensions::parse(body.extensions()?)?;
    Ok(Operation::MakeDirectory(MakeDirectory { name, mode, umask, extensions }))
}

fn create<'a>(
    mut body: Body<'a>,
    read_name: impl FnOnce(&mut Body<'a>) -> Result<&'a [u8], RequestFault>,
) -> Result<Create<'a>, RequestFault> {
    let CreateIn { flags, mode, umask, open_flags } = body.structure()?;
    let name = read_name(&mut body)?;
    let extensions = Extensions::parse(body.extensions()?)?;
    Ok(Create {
        name,
        flags: OFlags::from_bits_retain(flags),
        request_flags: OpenRequestFlags::from_bits_retain(open_flags),
        mode,
        umask,
        extensions,
    })
}

fn rename(mut body: Body<'_>) -> Decoded<'_> {
    let RenameIn { new_parent } = body.structure()?;
    let name = body.name()?;
    let new_name = body.only_name()?;
    Ok(Operation::Rename(Rename { name, new_parent, new_name, flags: RenameFlags::empty() }))
}

fn rename2(mut body: Body<'_>) -> Decoded<'_> {
    let Rename2In { new_parent, flags, .. } = body.structure()?;
    let name = body.name()?;
    let new_name = body.only_name()?;
    Ok(Operation::Rename2(Rename { name, new_parent, new_name, flags: RenameFlags::from_bits_retain(flags) }))
}

fn link(mut body: Body<'_>) -> Decoded<'_> {
    let LinkIn { old_node_id } = body.structure()?;
    let new_name = body.only_name()?;
    Ok(Operation::Link(Link { old_node_id, new_name }))
}

fn set_extended_attribute(mut body: Body<'_>, negotiated: Negotiated) -> Decoded<'_> {
    let SetExtendedAttributeIn { value_bytes, mode, flags, .. } = if negotiated.has_extended_setxattr() {
        body.structure()?
    } else {
        let SetExtendedAttributeShortIn { value_bytes, mode } = body.structure()?;
        SetExtendedAttributeIn { value_bytes, mode, ..SetExtendedAttributeIn::default() }
    };
    let name = body.text()?;
    let value = body.data(value_bytes)?;
    Ok(Operation::SetExtendedAttribute(SetExtendedAttribute {
        name,
        value,
        mode: SetExtendedAttributeMode::from_bits_retain(mode),
        flags: SetExtendedAttributeFlags::from_bits_retain(flags),
    }))
}

fn get_extended_attribute(mut body: Body<'_>) -> Decoded<'_> {
    let GetExtendedAttributeIn { size_bytes, .. } = body.structure()?;
    let name = body.text()?;
    body.end()?;
    Ok(Operation::GetExtendedAttribute(GetExtendedAttribute { name, size_bytes }))
}

fn remove_extended_attribute(mut body: Body<'_>) -> Decoded<'_> {
    let name = body.text()?;
    body.end()?;
    Ok(Operation::RemoveExtendedAttribute(name))
}

fn initialize(body: Body<'_>) -> Decoded<'_> {
    let bytes = body.remainder()?;
    let init = InitRequest::parse(bytes);
    Ok(Operation::Initialize(init.ok_or(RequestFault::InitTruncated { found_bytes: bytes.len() })?))
}

fn notify_reply(mut body: Body<'_>) -> Decoded<'_> {
    // Its first argument is empty, so that this structure lies in the payload of a ring entry.
    let NotifyRetrieveIn { offset_bytes, size_bytes, .. } = body.structure_of_rest()?;
    let data = body.data(size_bytes)?;
    Ok(Operation::NotifyReply(NotifyReply { offset_bytes, data }))
}
