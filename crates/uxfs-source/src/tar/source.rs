//! The thread that reads an archive, and its consumer.

use std::{
    fmt,
    fs::File,
    io::{BufReader, Read},
    ops::Range,
    path::{Path, PathBuf},
    sync::{
        Arc,
        mpsc::{Receiver, Sender, SyncSender, channel, sync_channel},
    },
    thread::{self, JoinHandle},
};

use super::{TarOptions, input::Input, parser::Parser};
use crate::{
    content::{Content, read_full},
    entry::Kind,
    error::{Problem, Shown, SourceError},
    packing::{MAGIC_BYTES, Packing, Unpacked, unpack},
    stream::{StreamItem, StreamSource},
    tree::Reading,
};

/// Messages on their way.
const MESSAGES: usize = 8;
/// Data in one message.
const DATA_BYTES: usize = 512 << 10;
/// A message of items ends with so many, or so many bytes of content.
const ITEMS: usize = 256;
const ITEM_BYTES: usize = 512 << 10;

enum Message {
    Items(Vec<StreamItem>, Vec<Problem>),
    /// Of the last item.
    Data(Vec<u8>),
    End,
    Failed(SourceError),
}

/// An archive.
pub struct TarSource {
    name: Shown,
    /// Where it can be opened again.
    path: Option<PathBuf>,
    options: TarOptions,
    reading: Reading,
    messages: Option<Receiver<Message>>,
    used: Sender<Vec<u8>>,
    thread: Option<JoinHandle<()>>,
    items: std::vec::IntoIter<StreamItem>,
    problems: Vec<Problem>,
    /// Bytes of the last entry's data that have not been read.
    data_left_bytes: u64,
    data: Vec<u8>,
    data_at: usize,
}

impl fmt::Debug for TarSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TarSource").field("name", &self.name).finish_non_exhaustive()
    }
}

impl TarSource {
    /// Begins to read the archive at `path`: a file, or a pipe with a name.
    ///
    /// # Errors
    /// It cannot be opened, or is packed in a way that is not supported.
    pub fn open(path: &Path, options: TarOptions, reading: Reading) -> Result<Self, SourceError> {
        let name = Shown::from(path.as_os_str().as_encoded_bytes());
        let failed = |error| SourceError::host(path, "open", error);
        let file = File::open(path).map_err(failed)?;
        let found = file.metadata().map_err(failed)?;
        let input = if found.is_file() {
            let mut start = [0; MAGIC_BYTES];
            let length =
                read_full(std::os::fd::AsFd::as_fd(&file), &mut start, 0).map_err(|e| failed(e.into()))?;
            match Packing::of(start.get(..length).unwrap_or_default()) {
                Packing::None => Input::of_file(name.clone(), Arc::new(file), 0..found.len()),
                _ => Input::of_stream(name.clone(), unpack(BufReader::new(file)).map_err(failed)?),
            }
        } else {
            Input::of_stream(name.clone(), unpack(BufReader::new(file)).map_err(failed)?)
        };
        let path = found.is_file().then(|| path.to_path_buf());
        Self::start(name, path, input, options, reading)
    }

    /// Begins to read an archive from a stream, packed or not, such as standard input.
    ///
    /// # Errors
    /// It cannot be read, or is packed in a way that is not supported.
    pub fn from_stream(
        name: &str,
        stream: impl Read + Send + 'static,
        options: TarOptions,
    ) -> Result<Self, SourceError> {
        let name = Shown::from(name.as_bytes());
        let unpacked = unpack(BufReader::new(stream));
        let unpacked = unpacked.map_err(|error| SourceError::io(&name.0, "read", error))?;
        let input = Input::of_stream(name.clone(), unpacked);
        Self::start(name, None, input, options, Reading::Everything)
    }

    /// Begins to read an archive that lies, not packed, in these bytes of a file. It cannot restart.
    pub(crate) fn of_bytes(
        name: Shown,
        file: Arc<File>,
        bytes: Range<u64>,
        options: TarOptions,
        reading: Reading,
    ) -> Result<Self, SourceError> {
        Self::start(name.clone(), None, Input::of_file(name, file, bytes), options, reading)
    }

    /// Begins to read an archive that has been unpacked. It cannot restart.
    pub(crate) fn of_unpacked(
        name: Shown,
        stream: Unpacked,
        options: TarOptions,
        reading: Reading,
    ) -> Result<Self, SourceError> {
        Self::start(name.clone(), None, Input::of_stream(name, stream), options, reading)
    }

    fn start(
        name: Shown,
        path: Option<PathBuf>,
        input: Input,
        options: TarOptions,
        reading: Reading,
    ) -> Result<Self, SourceError> {
        let (sender, messages) = sync_channel(MESSAGES);
        let (used, free) = channel();
        let parser = Parser::new(input, options.clone(), reading);
        let thread = thread::Builder::new().name("uxfs-tar".to_owned());
        let thread = thread.spawn(move || Producer { parser, reading, sender, free }.run());
        let thread = thread.map_err(|error| SourceError::io(&name.0, "start a thread for", error))?;
        Ok(Self {
            name,
            path,
            options,
            reading,
            messages: Some(messages),
            used,
            thread: Some(thread),
            items: Vec::new().into_iter(),
            problems: Vec::new(),
            data_left_bytes: 0,
            data: Vec::new(),
            data_at: 0,
        })
    }

    /// The next message, or `None` after the end.
    fn receive(&mut self) -> Result<Option<Message>, SourceError> {
        let Some(messages) = &self.messages else { return Ok(None) };
        match messages.recv() {
            Ok(Message::Failed(error)) => {
                self.messages = None;
                Err(error)
            }
            Ok(Message::End) => {
                self.messages = None;
                Ok(None)
            }
            Ok(message) => Ok(Some(message)),
            // The thread says how it ends, unless it panics.
            Err(_) => {
                self.messages = None;
                match self.thread.take().map(JoinHandle::join) {
                    Some(Err(panic)) => std::panic::resume_unwind(panic),
                    _ => Ok(None),
                }
            }
        }
    }

    /// Makes sure that there is data at hand, if any of the last entry is left.
    fn fill(&mut self) -> Result<(), SourceError> {
        while self.data_left_bytes > 0 && self.data_at >= self.data.len() {
            match self.receive()? {
                Some(Message::Data(data)) => {
                    let used = std::mem::replace(&mut self.data, data);
                    self.data_at = 0;
                    // The thread may be gone already; then the buffer is not needed.
                    let _ = self.used.send(used);
                }
                // After an error there is nothing more.
                _ => self.data_left_bytes = 0,
            }
        }
        Ok(())
    }
}

impl StreamSource for TarSource {
    fn next_item(&mut self) -> Result<Option<StreamItem>, SourceError> {
        while self.data_left_bytes > 0 {
            self.fill()?;
            self.data_left_bytes =
                self.data_left_bytes.saturating_sub((self.data.len() - self.data_at) as u64);
            self.data_at = self.data.len();
        }
        loop {
            if let Some(item) = self.items.next() {
                if self.reading == Reading::Everything
                    && let StreamItem::Entry(entry) = &item
                    && let Kind::Regular { content: Content::Stream(ranges), .. } = &entry.kind
                {
                    self.data_left_bytes = ranges.iter().map(|range| range.length_bytes).sum();
                }
                return Ok(Some(item));
            }
            match self.receive()? {
                Some(Message::Items(items, problems)) => {
                    self.items = items.into_iter();
                    self.problems.extend(problems);
                }
                // Content of an entry that has none: passed over like any content that is not read.
                Some(_) => {}
                None => return Ok(None),
            }
        }
    }

    fn read_data(&mut self, buffer: &mut [u8]) -> Result<usize, SourceError> {
        let mut filled = 0;
        while filled < buffer.len() && self.data_left_bytes > 0 {
            self.fill()?;
            let data = self.data.get(self.data_at..).unwrap_or_default();
            let length = data.len().min(buffer.len() - filled);
            if let (Some(to), Some(from)) = (buffer.get_mut(filled..filled + length), data.get(..length)) {
                to.copy_from_slice(from);
            }
            filled += length;
            self.data_at += length;
            self.data_left_bytes = self.data_left_bytes.saturating_sub(length as u64);
        }
        Ok(filled)
    }

    fn restart(&mut self, reading: Reading) -> Result<(), SourceError> {
        let Some(path) = &self.path else {
            return Err(SourceError::CannotRestart { path: self.name.clone() });
        };
        *self = Self::open(path, self.options.clone(), reading)?;
        Ok(())
    }

    fn take_problems(&mut self) -> Vec<Problem> {
        std::mem::take(&mut self.problems)
    }
}

/// The thread's side.
struct Producer {
    parser: Parser,
    reading: Reading,
    sender: SyncSender<Message>,
    free: Receiver<Vec<u8>>,
}

/// The receiver is gone.
struct Abandoned;

impl Producer {
    fn run(mut self) {
        let last = match self.produce() {
            Ok(()) => Message::End,
            Err(Ending::Failed(error)) => Message::Failed(error),
            Err(Ending::Abandoned) => return,
        };
        // Where the receiver is gone the last message is not needed.
        let _ = self.sender.send(last);
    }

    fn send(&self, message: Message) -> Result<(), Abandoned> {
        self.sender.send(message).map_err(|_| Abandoned)
    }

    fn produce(&mut self) -> Result<(), Ending> {
        let mut items = Vec::with_capacity(ITEMS);
        let mut bytes = 0;
        loop {
            let next = self.parser.next();
            if let Ok(Some(item)) = &next {
                bytes += weight(item);
            }
            let is_stream = self.reading == Reading::Everything && self.parser.has_data();
            let is_over = !matches!(next, Ok(Some(_)));
            if let Ok(Some(item)) = next {
                items.push(item);
            } else if let Err(error) = next {
                self.flush(&mut items)?;
                return Err(Ending::Failed(error));
            }
            if is_over || is_stream || items.len() >= ITEMS || bytes >= ITEM_BYTES {
                self.flush(&mut items)?;
                bytes = 0;
            }
            if is_over {
                return Ok(());
            }
            while self.reading == Reading::Everything && self.parser.has_data() {
                let mut data = self.free.try_recv().unwrap_or_default();
                self.parser.read_data(&mut data, DATA_BYTES)?;
                self.send(Message::Data(data))?;
            }
        }
    }

    fn flush(&mut self, items: &mut Vec<StreamItem>) -> Result<(), Abandoned> {
        let problems = std::mem::take(&mut self.parser.problems);
        if items.is_empty() && problems.is_empty() {
            return Ok(());
        }
        self.send(Message::Items(std::mem::replace(items, Vec::with_capacity(ITEMS)), problems))
    }
}

enum Ending {
    Failed(SourceError),
    Abandoned,
}

impl From<SourceError> for Ending {
    fn from(error: SourceError) -> Self {
        Self::Failed(error)
    }
}

impl From<Abandoned> for Ending {
    fn from(_: Abandoned) -> Self {
        Self::Abandoned
    }
}

/// Bytes that an item holds beside itself.
fn weight(item: &StreamItem) -> usize {
    let StreamItem::Entry(entry) = item else { return 0 };
    let attributes: usize = entry.metadata.attributes.iter().map(|a| a.name.len() + a.value.len()).sum();
    let content = match &entry.kind {
        Kind::Regular { content: Content::Inline(bytes), .. } => bytes.len(),
        Kind::Regular { content: Content::Stream(ranges), .. } => ranges.len() * 16,
        Kind::Symlink { target } => target.len(),
        _ => 0,
    };
    entry.path.len() + attributes + content
}
