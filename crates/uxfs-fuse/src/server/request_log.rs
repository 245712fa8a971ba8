//! A line for each request, with its reply and the time that it took: the option `debug`.

use zerocopy::FromBytes;

use super::Server;
use crate::{
    log::Level,
    protocol::{
        opcode::Opcode,
        request::{Operation, Request},
        wire::header::InHeader,
    },
    session::Served,
    transport::{Answer, Outcome},
};

/// Tells of one request that was answered.
#[cold]
pub(super) fn tell(
    server: &Server,
    request: &[u8],
    &Outcome { way, elapsed, answer, reply_bytes }: &Outcome,
) {
    let Ok((header, _)) = InHeader::read_from_prefix(request) else { return };
    let operation = Opcode::from_number(header.opcode);
    let name = name_of(server, request);
    let outcome = match answer {
        Answer::Nothing => "no reply".to_owned(),
        Answer::Reply => format!("{reply_bytes} bytes"),
        Answer::Error(error) => format!("error {error}"),
    };
    let InHeader { unique, node_id, user_id, process_id, size_bytes, .. } = header;
    let microseconds = elapsed.as_secs_f64() * 1e6;
    server.trouble.log.tell(
        Level::Debug,
        format_args!(
            "{operation} {unique}: inode {node_id}{name}, user {user_id}, thread {process_id}, {size_bytes} bytes: {outcome}, \
             {microseconds:.1} us, {}",
            way.name()
        ),
    );
}

/// The name that a request is about, if it is.
fn name_of(server: &Server, request: &[u8]) -> String {
    use Operation as O;
    let request = Request::parse(request, server.negotiated().unwrap_or_default());
    let name = match request.as_ref().map(|request| &request.operation) {
        Ok(
            O::Lookup(name) | O::Unlink(name) | O::RemoveDirectory(name) | O::RemoveExtendedAttribute(name),
        ) => name,
        Ok(O::Create(create) | O::TemporaryFile(create)) => create.name,
        Ok(O::MakeDirectory(make)) => make.name,
        Ok(O::MakeNode(make)) => make.name,
        Ok(O::SymbolicLink(link)) => link.name,
        Ok(O::Link(link)) => link.new_name,
        Ok(O::SetExtendedAttribute(set)) => set.name,
        Ok(O::GetExtendedAttribute(get)) => get.name,
        Ok(O::Rename(rename) | O::Rename2(rename)) => {
            let [old, new] = [rename.name, rename.new_name].map(|name| name.escape_ascii());
            return format!(" \"{old}\" to \"{new}\"");
        }
        Ok(_) | Err(_) => return String::new(),
    };
    format!(" \"{}\"", name.escape_ascii())
}
