//! Nodes of the calling-context tree: the sums over aggregated spans. A node has constant size; one thread writes it,
//! any thread may read it.

use std::cell::Cell;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Mutex, OnceLock};

use crate::counters::{Counters, finite_sum};
use crate::detail::{Detail, MemoryUse};
use crate::sync::{AtomicU32, AtomicU64, fence, locked};

/// Powers of two of nanoseconds that are counted separately; the last one also counts longer spans (39 hours).
const BUCKETS: usize = 48;
const NO_BUCKET: u32 = u32::MAX;

/// Attempts to read a node while it is written. The last attempt is taken as it is: the writer may be gone, as in the
/// child of a fork.
const TRIES: usize = 10_000;

/// A path of sites and the spans that took it. The data that every span touches is on one cache line, next to the
/// histogram.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Node {
    /// Odd while the values below are written.
    version: AtomicU32,
    number: AtomicU32,
    pub(crate) site: AtomicU32,
    parent: AtomicU32,
    begun: AtomicU64,
    total: AtomicU64,
    min: AtomicU64,
    max: AtomicU64,
    /// Bit pattern of an `f64`.
    square: AtomicU64,
    /// Bucket of the last span, not yet in the histogram; [`NO_BUCKET`] before the first.
    late: AtomicU32,
    /// The child that was entered last, the first one, and the next one of the same parent.
    latest: AtomicU32,
    first_child: AtomicU32,
    next: AtomicU32,
    histogram: [AtomicU64; BUCKETS],
    sums: [AtomicU64; SUMS],
}

/// Sums that only spans with counters or measurements change: bytes, items, flops (bit pattern), CPU time + 1,
/// allocations, allocated, freed, peak, 1 if memory was measured, resident bytes + 1.
const SUMS: usize = 10;

impl Default for Node {
    fn default() -> Self {
        Self {
            version: AtomicU32::new(0),
            number: AtomicU32::new(0),
            site: AtomicU32::new(0),
            parent: AtomicU32::new(0),
            latest: AtomicU32::new(0),
            first_child: AtomicU32::new(0),
            next: AtomicU32::new(0),
            begun: AtomicU64::new(0),
            total: AtomicU64::new(0),
            min: AtomicU64::new(u64::MAX),
            max: AtomicU64::new(0),
            square: AtomicU64::new(0),
            late: AtomicU32::new(NO_BUCKET),
            histogram: std::array::from_fn(|_| AtomicU64::new(0)),
            sums: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }
}

/// The values of a node at one moment.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NodeRead {
    pub(crate) site: u32,
    pub(crate) parent: u32,
    pub(crate) begun: u64,
    pub(crate) count: u64,
    pub(crate) total: u64,
    pub(crate) min: u64,
    pub(crate) max: u64,
    /// Sum of squared nanoseconds.
    pub(crate) square: f64,
    pub(crate) histogram: Vec<(u8, u64)>,
    pub(crate) sums: Detail,
}

/// Adds to a value that only this thread writes.
#[inline]
fn add(value: &AtomicU64, more: u64) {
    value.store(value.load(Relaxed).wrapping_add(more), Relaxed);
}

impl Node {
    #[inline]
    pub(crate) fn begin(&self) {
        add(&self.begun, 1);
    }

    pub(crate) fn number(&self) -> u32 {
        self.number.load(Relaxed)
    }

    #[inline]
    pub(crate) fn parent(&self) -> u32 {
        self.parent.load(Relaxed)
    }

    /// Adds a span, of `ticks()` of `ns_per_tick` each.
    ///
    /// The histogram is one span late. A store whose address depends on the latest clock reading would delay the next
    /// reading (16 ns on Zen 3); the address for the previous span has long been known.
    #[inline]
    pub(crate) fn end(&self, ticks: impl FnOnce() -> u64, ns_per_tick: f64) {
        self.write(|| {
            let late = self.late.load(Relaxed) as usize;
            if let Some(count) = self.histogram.get(late) {
                add(count, 1);
            }
            let ticks = ticks();
            // Signed numbers convert in one instruction; no span lasts 2^63 ticks.
            let ns = ticks.cast_signed() as f64 * ns_per_tick;
            // The exponent is the power of two; below 1 ns it is negative and counts as 0.
            let bucket = ((ns.to_bits() >> 52) as usize).saturating_sub(1023).min(BUCKETS - 1);
            self.late.store(bucket as u32, Relaxed);
            add(&self.total, ticks);
            let square = f64::from_bits(self.square.load(Relaxed)) + ns * ns;
            self.square.store(square.to_bits(), Relaxed);
            if ticks < self.min.load(Relaxed) {
                self.min.store(ticks, Relaxed);
            }
            if ticks > self.max.load(Relaxed) {
                self.max.store(ticks, Relaxed);
            }
        });
    }

    #[inline]
    fn write(&self, change: impl FnOnce()) {
        let version = self.version.load(Relaxed);
        self.version.store(version.wrapping_add(1), Relaxed);
        fence(Release);
        change();
        self.version.store(version.wrapping_add(2), Release);
    }

    pub(crate) fn add(&self, detail: &Detail) {
        let [bytes, items, flops, cpu, allocations, allocated, freed, peak, measured, rss] = &self.sums;
        self.write(|| {
            let counters = &detail.counters;
            add(bytes, counters.bytes);
            add(items, counters.items);
            flops.store(finite_sum(f64::from_bits(flops.load(Relaxed)), counters.flops).to_bits(), Relaxed);
            if let Some(ns) = detail.cpu_ns {
                cpu.store(cpu.load(Relaxed).max(1) + ns, Relaxed);
            }
            if let Some(memory) = detail.memory {
                add(allocations, memory.allocations);
                add(allocated, memory.allocated_bytes);
                add(freed, memory.freed_bytes);
                peak.store(peak.load(Relaxed).max(memory.peak_bytes), Relaxed);
                measured.store(1, Relaxed);
            }
            if let Some(bytes) = detail.rss_bytes {
                rss.store(rss.load(Relaxed).max(bytes + 1), Relaxed);
            }
        });
    }

    /// The values, all from one moment. Any thread may call this while the owner writes.
    pub(crate) fn read(&self) -> NodeRead {
        for _ in 0..TRIES {
            let before = self.version.load(Acquire);
            let read = self.copy();
            fence(Acquire);
            if before.is_multiple_of(2) && self.version.load(Relaxed) == before {
                return read;
            }
            pause();
        }
        self.copy()
    }

    fn copy(&self) -> NodeRead {
        let begun = self.begun.load(Relaxed);
        let (mut count, mut histogram) = (0, Vec::new());
        for (spans, bucket) in self.histogram.iter().zip(0_u8..) {
            let late = u64::from(u32::from(bucket) == self.late.load(Relaxed));
            let spans = spans.load(Relaxed) + late;
            if spans > 0 {
                histogram.push((bucket, spans));
                count += spans;
            }
        }
        let sum = |index: usize| self.sums.get(index).map_or(0, |sum| sum.load(Relaxed));
        NodeRead {
            site: self.site.load(Relaxed),
            parent: self.parent.load(Relaxed),
            begun,
            count,
            total: self.total.load(Relaxed),
            min: self.min.load(Relaxed),
            max: self.max.load(Relaxed),
            square: f64::from_bits(self.square.load(Relaxed)),
            histogram,
            sums: Detail {
                counters: Counters { bytes: sum(0), items: sum(1), flops: f64::from_bits(sum(2)) },
                cpu_ns: sum(3).checked_sub(1),
                memory: (sum(8) != 0).then(|| MemoryUse {
                    allocations: sum(4),
                    allocated_bytes: sum(5),
                    freed_bytes: sum(6),
                    peak_bytes: sum(7),
                }),
                rss_bytes: sum(9).checked_sub(1),
                ..Detail::default()
            },
        }
    }

    fn clear(&self) {
        for value in [&self.number, &self.site, &self.parent, &self.first_child, &self.next, &self.latest] {
            value.store(0, Relaxed);
        }
        for value in
            [&self.begun, &self.total, &self.max, &self.square].into_iter().chain(&self.histogram).chain(&self.sums)
        {
            value.store(0, Relaxed);
        }
        self.min.store(u64::MAX, Relaxed);
        self.late.store(NO_BUCKET, Relaxed);
    }
}

#[cfg(not(loom))]
fn pause() {
    std::hint::spin_loop();
}

#[cfg(loom)]
fn pause() {
    loom::thread::yield_now();
}

/// Nodes of a block; a lane takes whole blocks.
pub(crate) const BLOCK: usize = 64;
/// Blocks of a program: 1 048 576 nodes; few under Miri, which tracks every one.
const BLOCKS: usize = if cfg!(miri) { 1 << 6 } else { 1 << 14 };

type Block = OnceLock<Box<[Node]>>;

/// Every block of the program. A node is identified by its number: block times [`BLOCK`], plus its place. Number 0
/// means no node, so the first place of the first block stays unused.
static TABLE: [Block; BLOCKS] = [const { OnceLock::new() }; BLOCKS];
/// Numbers of the blocks that no lane uses, and the number of blocks that exist.
static FREE: Mutex<(Vec<u32>, u32)> = Mutex::new((Vec::new(), 0));

/// The node with a number, if its block exists.
#[inline]
pub(crate) fn node(number: u32) -> Option<&'static Node> {
    TABLE.get(number as usize / BLOCK)?.get()?.get(number as usize % BLOCK)
}

/// A block of new nodes; `None` if the program has used up all.
pub(crate) fn take_block() -> Option<u32> {
    let mut free = locked(&FREE);
    if let Some(block) = free.0.pop() {
        drop(free);
        let nodes = TABLE.get(block as usize)?.get()?;
        nodes.iter().for_each(Node::clear);
        return Some(block);
    }
    let block = free.1;
    TABLE.get(block as usize)?.get_or_init(|| (0..BLOCK).map(|_| Node::default()).collect());
    free.1 += 1;
    Some(block)
}

/// Returns blocks to the pool. The caller ensures that no thread writes to them any more.
pub(crate) fn give_blocks(blocks: &mut Vec<u32>) {
    locked(&FREE).0.append(blocks);
}

/// The child of `parent` at `site` if it exists. Only the owner calls this.
#[inline]
pub(crate) fn child(parent: &Node, site: u32) -> Option<&'static Node> {
    let latest = parent.latest.load(Relaxed);
    if let Some(found) = node(latest).filter(|node| latest != 0 && node.site.load(Relaxed) == site) {
        return Some(found);
    }
    let mut number = parent.first_child.load(Relaxed);
    while number != 0 {
        let candidate = node(number)?;
        if candidate.site.load(Relaxed) == site {
            parent.latest.store(number, Relaxed);
            return Some(candidate);
        }
        number = candidate.next.load(Relaxed);
    }
    None
}

/// A thread's recently found nodes, by parent and site: most spans find theirs with one comparison.
pub(crate) struct Recent([Cell<(u32, u32, Option<&'static Node>)>; RECENT]);

const RECENT: usize = 16;

impl Recent {
    pub(crate) const fn new() -> Self {
        Self([const { Cell::new((0, 0, None)) }; RECENT])
    }

    #[inline]
    fn place(&self, parent: u32, site: u32) -> &Cell<(u32, u32, Option<&'static Node>)> {
        // Neighbouring sites below one parent, and one site below neighbouring nodes, differ in their low bits.
        let place = parent.wrapping_mul(5).wrapping_add(site) as usize % RECENT;
        &self.0[place]
    }

    /// The child of a node at `site`, from this cache or the tree.
    #[inline]
    pub(crate) fn child(&self, parent: u32, site: u32) -> Option<&'static Node> {
        let place = self.place(parent, site);
        match place.get() {
            (known_parent, known_site, found) if (known_parent, known_site) == (parent, site) => found,
            _ => self.look_up(parent, site),
        }
    }

    #[inline(never)]
    fn look_up(&self, parent: u32, site: u32) -> Option<&'static Node> {
        let found = child(node(parent)?, site)?;
        self.place(parent, site).set((parent, site, Some(found)));
        Some(found)
    }

    /// Forgets everything: node numbers may now belong to another lane.
    pub(crate) fn clear(&self) {
        self.0.iter().for_each(|place| place.set((0, 0, None)));
    }
}

/// Makes the new node `number` a child of node `parent` at `site`. Only the owner calls this.
pub(crate) fn adopt(parent: u32, number: u32, site: u32) -> Option<&'static Node> {
    let (outer, inner) = (node(parent)?, node(number)?);
    inner.number.store(number, Relaxed);
    inner.parent.store(parent, Relaxed);
    inner.next.store(outer.first_child.load(Relaxed), Relaxed);
    // Stored after the parent and with release, so a reader that sees the site also sees the rest.
    inner.site.store(site, Release);
    outer.first_child.store(number, Relaxed);
    outer.latest.store(number, Relaxed);
    Some(inner)
}

#[cfg(all(test, loom))]
mod tests {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    /// A reader sees one of the states of a node, never a mixture.
    #[test]
    fn loom_a_reader_sees_one_state() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(|| {
            let node = Arc::new(Node::default());
            let reader = node.clone();
            let read = thread::spawn(move || {
                let before = reader.version.load(Acquire);
                let read = reader.copy();
                fence(Acquire);
                (before % 2 == 0 && reader.version.load(Relaxed) == before).then_some(read)
            });
            node.end(|| 4, 1.0);
            if let Some(read) = read.join().expect("the reader does not panic") {
                assert_eq!((read.count, read.total, read.max), if read.count == 0 { (0, 0, 0) } else { (1, 4, 4) });
            }
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_node_keeps_what_a_list_of_durations_would() {
        let node = Node::default();
        let durations = [1_u64, 2, 3, 1000, 1024, 70_000, 0];
        for ticks in durations {
            node.begin();
            node.end(|| ticks, 1.0);
        }
        node.begin();
        let read = node.read();
        assert_eq!((read.begun, read.count), (8, 7));
        assert_eq!((read.total, read.min, read.max), (72_030, 0, 70_000));
        assert_eq!(read.square, durations.iter().map(|ticks| (ticks * ticks) as f64).sum::<f64>());
        assert_eq!(read.histogram, [(0, 2), (1, 2), (9, 1), (10, 1), (16, 1)]);
        node.clear();
        assert_eq!(node.read(), Node::default().read());
    }

    #[test]
    fn a_block_returns_empty() {
        let block = take_block().unwrap();
        let number = block * BLOCK as u32 + 5;
        adopt(number - 1, number, 9).unwrap().end(|| 3, 1.0);
        assert_eq!(child(node(number - 1).unwrap(), 9).map(Node::number), Some(number));
        assert!(child(node(number - 1).unwrap(), 8).is_none());
        node(number).unwrap().clear();
        give_blocks(&mut vec![block]);
        assert_eq!(node(number).unwrap().read(), Node::default().read());
    }
}
