//! Aligned memory for buffers, cut from large chunks.
//!
//! One `malloc` per buffer grows the heap page by page, and every thread of a process then meets on the lock of its
//! address space; freed buffers between live ones never go back to the system. A [`BufferPool`] maps memory a chunk
//! at a time, cuts it in halves until a piece fits, joins free halves again, and unmaps a chunk as soon as it is whole.
//! So sizes share all chunks: what large buffers leave serves small ones and, where neighbours are free, the other way
//! round. Of the free pieces the one at the lowest place is taken first, so that the last chunks empty.
//!
//! Chunks are kept in a few stripes with a lock each. A thread takes from its own stripe, then from the others, and
//! only then is a chunk mapped.
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

use crate::thread_shards::turn_of_this_thread;

/// Smallest slot; a slot of order `n` has this many bytes times 2 to the power of `n`.
const SMALLEST_SLOT_BYTES: usize = 512;
/// Largest slot, where chunks are large enough; what is longer gets a mapping of its own.
const LARGEST_SLOT_BYTES: usize = 256 << 10;
/// Bounds of a chunk.
const CHUNK_BYTES: std::ops::RangeInclusive<usize> = 64 << 10..=32 << 20;
/// Alignment of every mapping; larger slots are aligned no better.
const PAGE_BYTES: usize = 4096;
/// Mappings of a multiple of this ask for huge pages.
#[cfg(not(miri))]
const HUGE_PAGE_BYTES: usize = 2 << 20;
/// Free chunks that are kept for the next request.
const SPARE_CHUNKS: usize = 2;
/// Stripes at most: each may hold a chunk that is nearly empty.
const MAX_STRIPES: usize = 4;

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
    Slot { stripe: usize, slot: Slot },
    Mapping(Mapping),
}

/// Half of a half of … a chunk.
#[derive(Clone, Copy)]
struct Slot {
    /// Units of the smallest size before it, counting all chunks of its stripe.
    place: usize,
    order: usize,
}

struct Shared {
    chunk_bytes: usize,
    smallest_order: usize,
    stripes: Box<[Mutex<Stripe>]>,
    spare: Mutex<Vec<Mapping>>,
    mapped_bytes: AtomicU64,
}

struct Stripe {
    chunks: Vec<Option<Mapping>>,
    vacant: Vec<usize>,
    chunk_order: usize,
    /// Places of free slots, by order. Two free halves of one slot are never both here.
    free: Vec<BTreeSet<usize>>,
}

impl BufferPool {
    /// A pool that maps `chunk_bytes` at a time (rounded up to a power of two between 64 KiB and 32 MiB) and aligns
    /// every buffer to `alignment_bytes` (rounded up to a power of two, at most 4096).
    pub fn new(chunk_bytes: usize, alignment_bytes: usize) -> Self {
        let smallest_slot = alignment_bytes.clamp(SMALLEST_SLOT_BYTES, PAGE_BYTES).next_power_of_two();
        let chunk_bytes = chunk_bytes.clamp(*CHUNK_BYTES.start(), *CHUNK_BYTES.end()).next_power_of_two();
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let stripes = threads.min(MAX_STRIPES).next_power_of_two();
        let shared = Shared {
            chunk_bytes,
            smallest_order: order_of(smallest_slot),
            stripes: (0..stripes).map(|_| Mutex::new(Stripe::new(order_of(chunk_bytes)))).collect(),
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
        self.allocate_within(length_bytes, u64::MAX)?.ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }

    /// As [`allocate`](Self::allocate), but gives none where more than `mapped_bytes` would have to be mapped.
    ///
    /// # Errors
    /// The system has no more memory for this process.
    pub fn allocate_within(
        &self,
        length_bytes: usize,
        mapped_bytes: u64,
    ) -> io::Result<Option<AlignedBuffer>> {
        let found = match self.shared.slot_order(length_bytes) {
            Some(order) => self.shared.take_slot(order, mapped_bytes)?,
            None if self.shared.may_map(length_bytes, mapped_bytes) => {
                let mapping = self.shared.map(length_bytes.next_multiple_of(PAGE_BYTES))?;
                Some((mapping.memory, Home::Mapping(mapping)))
            }
            None => None,
        };
        let pool = &self.shared;
        Ok(found.map(|(memory, home)| AlignedBuffer { memory, length_bytes, home, pool: Arc::clone(pool) }))
    }

    /// Bytes that a buffer of `length_bytes` takes.
    pub fn footprint_bytes(&self, length_bytes: usize) -> usize {
        let whole_pages = || length_bytes.next_multiple_of(PAGE_BYTES);
        self.shared.slot_order(length_bytes).map_or_else(whole_pages, slot_bytes)
    }

    /// Bytes mapped at a time.
    pub fn chunk_bytes(&self) -> usize {
        self.shared.chunk_bytes
    }

    /// Bytes mapped now, in use or not.
    pub fn mapped_bytes(&self) -> u64 {
        self.shared.mapped_bytes.load(Ordering::Relaxed)
    }

    /// Returns free memory to the system: unmaps the chunks that are kept for later, and lets the system have the free pages of
    /// all others. They stay mapped, and are zeroes when they are used again.
    pub fn trim(&self) {
        let spare = std::mem::take(&mut *self.shared.spare.lock());
        self.shared.unmap(spare);
        self.shared.stripes.iter().for_each(|stripe| stripe.lock().release_free_pages());
    }
}

impl fmt::Debug for BufferPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BufferPool").field("mapped_bytes", &self.mapped_bytes()).finish_non_exhaustive()
    }
}

const fn slot_bytes(order: usize) -> usize {
    SMALLEST_SLOT_BYTES << order
}

/// Order of the smallest slot that has `length_bytes`.
fn order_of(length_bytes: usize) -> usize {
    let units = length_bytes.div_ceil(SMALLEST_SLOT_BYTES).max(1);
    units.next_power_of_two().trailing_zeros() as usize
}

impl Shared {
    /// None where the length is for a mapping of its own.
    fn slot_order(&self, length_bytes: usize) -> Option<usize> {
        let fits = length_bytes <= LARGEST_SLOT_BYTES.min(self.chunk_bytes);
        fits.then(|| order_of(length_bytes).max(self.smallest_order))
    }

    fn may_map(&self, length_bytes: usize, mapped_bytes: u64) -> bool {
        let mapped = self.mapped_bytes.load(Ordering::Relaxed);
        mapped.saturating_add(length_bytes as u64) <= mapped_bytes
    }

    fn take_slot(&self, order: usize, mapped_bytes: u64) -> io::Result<Option<(NonNull<u8>, Home)>> {
        let (own, mask) = (turn_of_this_thread(), self.stripes.len() - 1);
        for distance in 0..self.stripes.len() {
            let index = (own + distance) & mask;
            let mut stripe = self.stripes[index].lock();
            if let Some(slot) = stripe.take(order) {
                return Ok(Some((stripe.memory(slot), Home::Slot { stripe: index, slot })));
            }
        }
        let spare = self.spare.lock().pop();
        let chunk = match spare {
            Some(chunk) => chunk,
            None if self.may_map(self.chunk_bytes, mapped_bytes) => self.map(self.chunk_bytes)?,
            None => return Ok(None),
        };
        let index = own & mask;
        let mut stripe = self.stripes[index].lock();
        // Meanwhile another thread may have given something back: a chunk is never added beside what would do.
        let (slot, surplus) = match stripe.take(order) {
            Some(slot) => (slot, Some(chunk)),
            None => (stripe.take_from_new(chunk, order), None),
        };
        let found = (stripe.memory(slot), Home::Slot { stripe: index, slot });
        drop(stripe);
        if let Some(chunk) = surplus {
            self.keep_or_unmap(chunk);
        }
        Ok(Some(found))
    }

    fn give_back(&self, stripe: usize, slot: Slot) {
        let whole = self.stripes[stripe].lock().give_back(slot);
        if let Some(chunk) = whole {
            self.keep_or_unmap(chunk);
        }
    }

    fn keep_or_unmap(&self, chunk: Mapping) {
        let mut spare = self.spare.lock();
        if spare.len() < SPARE_CHUNKS {
            spare.push(chunk);
        } else {
            drop(spare);
            self.unmap(vec![chunk]);
        }
    }

    fn map(&self, length_bytes: usize) -> io::Result<Mapping> {
        let mapping = Mapping::new(length_bytes)?;
        self.mapped_bytes.fetch_add(length_bytes as u64, Ordering::Relaxed);
        Ok(mapping)
    }

    fn unmap(&self, mappings: Vec<Mapping>) {
        let length: usize = mappings.iter().map(|mapping| mapping.length_bytes).sum();
        drop(mappings);
        self.mapped_bytes.fetch_sub(length as u64, Ordering::Relaxed);
    }
}

impl Stripe {
    fn new(chunk_order: usize) -> Self {
        let free = vec![BTreeSet::new(); chunk_order + 1];
        Self { chunks: Vec::new(), vacant: Vec::new(), chunk_order, free }
    }

    fn take_from_new(&mut self, chunk: Mapping, order: usize) -> Slot {
        let index = self.vacant.pop().unwrap_or(self.chunks.len());
        if index == self.chunks.len() {
            self.chunks.push(None);
        }
        self.chunks[index] = Some(chunk);
        self.split(index << self.chunk_order, self.chunk_order, order)
    }

    /// Takes the first free slot of the smallest order that is enough.
    fn take(&mut self, order: usize) -> Option<Slot> {
        let larger = (order..=self.chunk_order).find(|order| !self.free[*order].is_empty())?;
        let place = self.free[larger].pop_first()?;
        Some(self.split(place, larger, order))
    }

    /// Cuts a slot down to `order`; the halves that are not needed are free.
    fn split(&mut self, place: usize, mut larger: usize, order: usize) -> Slot {
        while larger > order {
            larger -= 1;
            self.free[larger].insert(place + (1 << larger));
        }
        Slot { place, order }
    }

    /// Joins a slot with its free neighbours; gives the chunk if that makes it whole.
    fn give_back(&mut self, slot: Slot) -> Option<Mapping> {
        let Slot { mut place, mut order } = slot;
        while order < self.chunk_order && self.free[order].remove(&(place ^ (1 << order))) {
            place &= !(1 << order);
            order += 1;
        }
        if order < self.chunk_order {
            self.free[order].insert(place);
            return None;
        }
        let index = place >> self.chunk_order;
        self.vacant.push(index);
        self.chunks[index].take()
    }

    #[cfg(not(miri))]
    fn release_free_pages(&self) {
        for order in order_of(PAGE_BYTES)..self.chunk_order {
            for place in &self.free[order] {
                let memory = self.memory(Slot { place: *place, order }).as_ptr().cast();
                // SAFETY: whole pages of a mapping that is private and anonymous, in a slot that is free: there
                // are no references to them, and while this stripe is locked none can arise. If the call fails, nothing changes.
                let _ = unsafe {
                    rustix::mm::madvise(memory, slot_bytes(order), rustix::mm::Advice::LinuxDontNeed)
                };
            }
        }
    }

    #[cfg(miri)]
    fn release_free_pages(&self) {}

    fn memory(&self, slot: Slot) -> NonNull<u8> {
        let chunk = self.chunks[slot.place >> self.chunk_order].as_ref().expect("its slots are in use");
        let offset = (slot.place & ((1 << self.chunk_order) - 1)) * SMALLEST_SLOT_BYTES;
        // SAFETY: a chunk has 2^chunk_order units, and the place within it counts units before the slot.
        unsafe { chunk.memory.add(offset) }
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
            Home::Slot { stripe, slot } => self.pool.give_back(*stripe, *slot),
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
        // (invariant 2) and that no other owner writes (invariant 1).
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr(), self.length_bytes) }
    }
}

impl DerefMut for AlignedBuffer {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `&mut self` excludes other readers.
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
