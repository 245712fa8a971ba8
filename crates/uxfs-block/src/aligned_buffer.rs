//! Aligned memory for buffers, cut from large chunks.
//!
//! One `malloc` per buffer grows the heap page by page, and every thread of a process then meets on the lock of its
//! address space; freed buffers between live ones never go back to the system. A [`BufferPool`] maps memory a chunk
//! at a time, gives each chunk to one size of slot, and unmaps a chunk as soon as all its slots are free.
//!
//! Invariants of the pool, cited by the tests:
//! 1. A slot belongs to one [`AlignedBuffer`] at a time.
//! 2. A chunk stays mapped while one of its slots is in use, and the pool lives while one buffer of it does.
//! 3. All memory handed out is initialised: zeroes of a fresh mapping or what an earlier owner left.
//! 4. A slot's address is a multiple of its size, or of the page size where that is smaller.
#![allow(unsafe_code)]

use std::{
    collections::BTreeSet,
    fmt, io,
    ops::{Deref, DerefMut},
    ptr::NonNull,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;

/// Smallest slot.
const SMALLEST_SLOT_BYTES: usize = 512;
/// Slots of 512 bytes, 1 KiB … 64 KiB; larger buffers get a mapping of their own.
const CLASSES: usize = 8;
/// Alignment of every mapping; larger slots are aligned no better.
const PAGE_BYTES: usize = 4096;
/// Mappings of a multiple of this ask for huge pages.
#[cfg(not(miri))]
const HUGE_PAGE_BYTES: usize = 2 << 20;
/// Free chunks kept for the next size of slot that needs one.
const SPARE_CHUNKS: usize = 2;

/// Where aligned buffers come from. Cheap to clone; all clones share their memory.
#[derive(Clone)]
pub struct BufferPool {
    shared: Arc<Shared>,
}

/// Aligned bytes of one owner. They go back to their pool when dropped.
pub struct AlignedBuffer {
    memory: NonNull<u8>,
    length_bytes: usize,
    home: Home,
    pool: Arc<Shared>,
}

enum Home {
    Slot { class: usize, chunk: usize, slot: u16 },
    Mapping(Mapping),
}

struct Shared {
    chunk_bytes: usize,
    smallest_class: usize,
    classes: [Mutex<Class>; CLASSES],
    spare: Mutex<Vec<Mapping>>,
    mapped_bytes: AtomicU64,
}

#[derive(Default)]
struct Class {
    chunks: Vec<Option<Chunk>>,
    vacant: Vec<usize>,
    /// Chunks with a free slot. The first is used first, so that the later ones empty and can be unmapped.
    partial: BTreeSet<usize>,
}

struct Chunk {
    memory: Mapping,
    free: Vec<u16>,
}

impl BufferPool {
    /// A pool that maps `chunk_bytes` at a time (at least 64 KiB, rounded up to a power of two) and aligns every
    /// buffer to `alignment_bytes` (rounded up to a power of two, at most 4096).
    pub fn new(chunk_bytes: usize, alignment_bytes: usize) -> Self {
        let largest_slot = slot_bytes(CLASSES - 1);
        let smallest_slot = alignment_bytes.clamp(SMALLEST_SLOT_BYTES, PAGE_BYTES).next_power_of_two();
        let shared = Shared {
            chunk_bytes: chunk_bytes.clamp(largest_slot, 1 << 24).next_power_of_two(),
            smallest_class: class_of(smallest_slot),
            classes: Default::default(),
            spare: Mutex::default(),
            mapped_bytes: AtomicU64::new(0),
        };
        Self { shared: Arc::new(shared) }
    }

    /// A buffer of `length_bytes`, holding anything.
    ///
    /// # Errors
    /// The system has no more memory for this process.
    pub fn allocate(&self, length_bytes: usize) -> io::Result<AlignedBuffer> {
        let (memory, home) = if length_bytes > slot_bytes(CLASSES - 1) {
            let mapping = self.shared.map(length_bytes.next_multiple_of(PAGE_BYTES))?;
            (mapping.memory, Home::Mapping(mapping))
        } else {
            self.shared.take_slot(class_of(length_bytes).max(self.shared.smallest_class))?
        };
        Ok(AlignedBuffer { memory, length_bytes, home, pool: Arc::clone(&self.shared) })
    }

    /// Bytes that a buffer of `length_bytes` takes of a chunk.
    pub fn footprint_bytes(&self, length_bytes: usize) -> usize {
        if length_bytes > slot_bytes(CLASSES - 1) {
            length_bytes.next_multiple_of(PAGE_BYTES)
        } else {
            slot_bytes(class_of(length_bytes).max(self.shared.smallest_class))
        }
    }

    /// Bytes mapped now, in use or not.
    pub fn mapped_bytes(&self) -> u64 {
        self.shared.mapped_bytes.load(Ordering::Relaxed)
    }

    /// Unmaps the free chunks that are kept for later.
    pub fn trim(&self) {
        let spare = std::mem::take(&mut *self.shared.spare.lock());
        self.shared.unmap(spare);
    }
}

impl fmt::Debug for BufferPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BufferPool").field("mapped_bytes", &self.mapped_bytes()).finish_non_exhaustive()
    }
}

const fn slot_bytes(class: usize) -> usize {
    SMALLEST_SLOT_BYTES << class
}

fn class_of(length_bytes: usize) -> usize {
    let slots = length_bytes.div_ceil(SMALLEST_SLOT_BYTES).max(1);
    slots.next_power_of_two().trailing_zeros() as usize
}

impl Shared {
    fn take_slot(&self, class_index: usize) -> io::Result<(NonNull<u8>, Home)> {
        let mut class = self.classes[class_index].lock();
        let index = match class.partial.first() {
            Some(index) => *index,
            // The mapping is made inside the class's lock: whoever waits for it needs the same chunk.
            None => class.add(Chunk::new(self.spare_or_new_chunk()?, slot_bytes(class_index))),
        };
        let chunk = class.chunks[index].as_mut().expect("a partial chunk exists");
        let slot = chunk.free.pop().expect("a partial chunk has a free slot");
        // SAFETY: `slot` is one of the slots into which the chunk was divided, so the offset lies in its mapping.
        let memory = unsafe { chunk.memory.memory.add(usize::from(slot) * slot_bytes(class_index)) };
        if chunk.free.is_empty() {
            class.partial.remove(&index);
        }
        Ok((memory, Home::Slot { class: class_index, chunk: index, slot }))
    }

    fn give_slot_back(&self, class_index: usize, index: usize, slot: u16) {
        let mut class = self.classes[class_index].lock();
        let chunk = class.chunks[index].as_mut().expect("a chunk stays while a slot is in use");
        chunk.free.push(slot);
        let is_free = chunk.free.len() == self.chunk_bytes / slot_bytes(class_index);
        class.partial.insert(index);
        if !is_free {
            return;
        }
        let chunk = class.remove(index);
        drop(class);
        let mut spare = self.spare.lock();
        if spare.len() < SPARE_CHUNKS {
            spare.push(chunk.memory);
        } else {
            drop(spare);
            self.unmap(vec![chunk.memory]);
        }
    }

    fn spare_or_new_chunk(&self) -> io::Result<Mapping> {
        let spare = self.spare.lock().pop();
        spare.map_or_else(|| self.map(self.chunk_bytes), Ok)
    }

    fn map(&self, length_bytes: usize) -> io::Result<Mapping> {
        let mapping = Mapping::new(length_bytes)?;
        self.mapped_bytes.fetch_add(length_bytes as u64, Ordering::Relaxed);
        Ok(mapping)
    }

    fn unmap(&self, mappings: Vec<Mapping>) {
        let length: usize = mappings.iter().map(|mapping| mapping.length_bytes).sum();
        self.mapped_bytes.fetch_sub(length as u64, Ordering::Relaxed);
    }
}

impl Class {
    fn add(&mut self, chunk: Chunk) -> usize {
        let index = self.vacant.pop().unwrap_or(self.chunks.len());
        if index == self.chunks.len() {
            self.chunks.push(None);
        }
        self.chunks[index] = Some(chunk);
        self.partial.insert(index);
        index
    }

    fn remove(&mut self, index: usize) -> Chunk {
        self.partial.remove(&index);
        self.vacant.push(index);
        self.chunks[index].take().expect("a chunk is removed once")
    }
}

impl Chunk {
    fn new(memory: Mapping, slot_bytes: usize) -> Self {
        let slots = u16::try_from(memory.length_bytes / slot_bytes).unwrap_or(u16::MAX);
        Self { memory, free: (0..slots).rev().collect() }
    }
}

impl AlignedBuffer {
    /// A buffer outside any shared pool, aligned to a page.
    ///
    /// # Errors
    /// The system has no more memory for this process.
    pub fn page_aligned(length_bytes: usize) -> io::Result<Self> {
        static POOL: std::sync::LazyLock<BufferPool> =
            std::sync::LazyLock::new(|| BufferPool::new(1 << 20, PAGE_BYTES));
        POOL.allocate(length_bytes)
    }
}

impl Drop for AlignedBuffer {
    fn drop(&mut self) {
        match &self.home {
            Home::Slot { class, chunk, slot } => self.pool.give_slot_back(*class, *chunk, *slot),
            Home::Mapping(mapping) => {
                self.pool.mapped_bytes.fetch_sub(mapping.length_bytes as u64, Ordering::Relaxed);
            }
        }
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: `memory` points to at least `length_bytes` initialised bytes (invariant 3) that stay mapped
        // (invariant 2) and that nobody else writes (invariant 1).
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr(), self.length_bytes) }
    }
}

impl DerefMut for AlignedBuffer {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `&mut self` says that nobody else reads them either.
        unsafe { std::slice::from_raw_parts_mut(self.memory.as_ptr(), self.length_bytes) }
    }
}

impl fmt::Debug for AlignedBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AlignedBuffer").field("length_bytes", &self.length_bytes).finish_non_exhaustive()
    }
}

// SAFETY: the buffer owns its bytes alone (invariant 1), like a `Box<[u8]>`; the pool is behind locks.
unsafe impl Send for AlignedBuffer {}
// SAFETY: through `&AlignedBuffer` the bytes are only read.
unsafe impl Sync for AlignedBuffer {}

/// An anonymous private mapping, aligned to a page.
struct Mapping {
    memory: NonNull<u8>,
    length_bytes: usize,
}

// SAFETY: the mapping is memory owned by this value alone; the address means the same on every thread.
unsafe impl Send for Mapping {}
// SAFETY: through `&Mapping` nothing is read or written.
unsafe impl Sync for Mapping {}

#[cfg(not(miri))]
impl Mapping {
    fn new(length_bytes: usize) -> io::Result<Self> {
        use rustix::mm::{MapFlags, ProtFlags};
        // SAFETY: with a null address and without MAP_FIXED the kernel chooses unused addresses.
        let address = unsafe {
            rustix::mm::mmap_anonymous(
                std::ptr::null_mut(),
                length_bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )
        }?;
        let memory = NonNull::new(address.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        if length_bytes.is_multiple_of(HUGE_PAGE_BYTES) {
            // One page fault instead of 512. Where the system has no huge pages to give, small ones do.
            // SAFETY: exactly the range just mapped; the advice does not change what it holds.
            let _ = unsafe { rustix::mm::madvise(address, length_bytes, rustix::mm::Advice::LinuxHugepage) };
        }
        Ok(Self { memory, length_bytes })
    }
}

#[cfg(not(miri))]
impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly what `new` mapped; no slot of it is in use (invariant 2). It fails only for addresses
        // that are not mapped.
        let _ = unsafe { rustix::mm::munmap(self.memory.as_ptr().cast(), self.length_bytes) };
    }
}

#[cfg(miri)]
impl Mapping {
    fn layout(length_bytes: usize) -> std::alloc::Layout {
        std::alloc::Layout::from_size_align(length_bytes, PAGE_BYTES).expect("a page is a power of two")
    }

    fn new(length_bytes: usize) -> io::Result<Self> {
        // SAFETY: no caller asks for an empty mapping.
        let memory = unsafe { std::alloc::alloc_zeroed(Self::layout(length_bytes)) };
        Ok(Self { memory: NonNull::new(memory).ok_or(io::ErrorKind::OutOfMemory)?, length_bytes })
    }
}

#[cfg(miri)]
impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with the same layout.
        unsafe { std::alloc::dealloc(self.memory.as_ptr(), Self::layout(self.length_bytes)) };
    }
}

#[cfg(test)]
#[path = "aligned_buffer_tests.rs"]
mod tests;
