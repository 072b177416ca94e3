//! Breadth-first searches, really run, page by page.
//!
//! **Problem.** Graphs are what slow memory is bought for, and no distribution describes a search:
//! it streams through edges, and hits the vertices they lead to at random, popular ones often.
//! **Idea.** Build a graph, run searches from one source after another, and write down each cache
//! line touched that the search before it in that array did not just touch.
//!
//! ```text
//!   pages   [ offsets | parents | queue | edges ............................ ]
//!   search  queue -> offsets -> edges, 16 a line -> parents of each, written if new -> queue
//! ```
//!
//! **Data and invariants.** 16 edges a vertex, 4 bytes an edge, a vertex and an offset. Edges lead
//! to popular vertices more often, as in R-MAT graphs: each bit of a vertex's rank is 0 three times
//! in four. Which vertices are popular is scattered by a multiplication.
//!
//! **Deliberately ignored.** Searches from the bottom up; several at once; caches larger than a
//! line.
//!
//! Source: Graph500's kernel 2; Chakrabarti, Zhan and Faloutsos, "R-MAT", 2004, for the skew.

use super::AccessStream;
use crate::random::Random;
use crate::tiers::access_loop::TierAccess;

const DEGREE: u32 = 16;
/// Numbers of 4 bytes in a page, and in a cache line.
const PAGE_ITEMS: u32 = 1024;
const LINE_ITEMS: u32 = 16;
/// Of 256, how often a bit of a rank is 0.
const ZEROES: u64 = 194;
const UNSEEN: u32 = u32::MAX;

/// See the module.
#[derive(Debug)]
pub struct Bfs {
    pub(super) nr_vertices: u32,
    /// `[vertices x 16]`, where each edge leads.
    pub(super) edges: Vec<u32>,
    /// `[vertices]`, from where a vertex was found in this search.
    parents: Vec<u32>,
    /// Vertices found, in order; those before `head` are done.
    queue: Vec<u32>,
    head: usize,
    random: Random,
    /// Touches of the vertex under way that were not asked for yet.
    ahead: Vec<TierAccess>,
}

impl Bfs {
    /// A graph that fits in so many pages, and its first search.
    ///
    /// # Panics
    /// Where not even 1024 vertices fit (19 pages).
    ///
    /// # Cost
    /// 72 bytes a vertex, about 230 a page; some microseconds a page.
    pub fn new(nr_pages: u32, seed: u64) -> Bfs {
        // A vertex has an offset, a parent, a place in the queue and its edges.
        let nr_vertices = nr_pages / (3 + DEGREE) * PAGE_ITEMS;
        assert!(nr_vertices > 0, "no graph fits in {nr_pages} pages");
        let mut random = Random::stream(seed, 5);
        let edges = (0..u64::from(nr_vertices) * u64::from(DEGREE))
            .map(|_| popular(&mut random, nr_vertices))
            .collect();
        let mut search = Bfs {
            nr_vertices,
            edges,
            parents: vec![UNSEEN; nr_vertices as usize],
            queue: Vec::with_capacity(nr_vertices as usize),
            head: 0,
            random,
            ahead: Vec::new(),
        };
        search.start();
        search
    }

    /// Begins a search from another vertex.
    fn start(&mut self) {
        let source = self.random.index(self.nr_vertices);
        self.parents.fill(UNSEEN);
        self.parents[source as usize] = source;
        self.queue.clear();
        self.queue.push(source);
        self.head = 0;
        // Forgetting the last search writes all parents, line by line.
        let first = self.first_page(1);
        for page in first..self.first_page(2) {
            let lines = (0..PAGE_ITEMS / LINE_ITEMS).map(|_| TierAccess::write(page));
            self.ahead.extend(lines);
        }
    }

    /// The first page of array `nth`: offsets, parents, queue, edges.
    fn first_page(&self, nth: u32) -> u32 {
        self.nr_vertices / PAGE_ITEMS * nth
    }

    /// The page of item `at` of an array.
    fn page(&self, array: u32, at: u32) -> u32 {
        self.first_page(array) + at / PAGE_ITEMS
    }

    /// Takes the next vertex of the queue, and looks where its edges lead.
    fn step(&mut self) {
        let Some(&vertex) = self.queue.get(self.head) else {
            return self.start();
        };
        if (self.head as u32).is_multiple_of(LINE_ITEMS) {
            self.ahead.push(TierAccess::read(self.page(2, self.head as u32)));
        }
        self.head += 1;
        self.ahead.push(TierAccess::read(self.page(0, vertex)));
        self.ahead.push(TierAccess::read(self.page(3, vertex * DEGREE)));
        for edge in 0..DEGREE {
            let found = self.edges[(vertex * DEGREE + edge) as usize];
            let parent = self.page(1, found);
            self.ahead.push(TierAccess::read(parent));
            if self.parents[found as usize] != UNSEEN {
                continue;
            }
            self.parents[found as usize] = vertex;
            self.ahead.push(TierAccess::write(parent));
            if (self.queue.len() as u32).is_multiple_of(LINE_ITEMS) {
                self.ahead.push(TierAccess::write(self.page(2, self.queue.len() as u32)));
            }
            self.queue.push(found);
        }
    }
}

/// A vertex, popular ones more often.
fn popular(random: &mut Random, nr_vertices: u32) -> u32 {
    let nr_bits = nr_vertices.next_power_of_two().trailing_zeros();
    let (mut rank, mut bits, mut left) = (0_u64, 0, 0);
    for _ in 0..nr_bits {
        if left == 0 {
            (bits, left) = (random.bits(), 8);
        }
        rank = rank << 1 | u64::from(bits & 255 >= ZEROES);
        bits >>= 8;
        left -= 1;
    }
    // An odd factor scatters ranks over all vertices, and tells each from the other below 2^bits.
    let scattered = (rank.wrapping_mul(0x9e37_79b1) & ((1 << nr_bits) - 1)) as u32;
    if scattered < nr_vertices { scattered } else { scattered % nr_vertices }
}

impl AccessStream for Bfs {
    fn nr_pages(&self) -> u32 {
        self.first_page(3) + self.nr_vertices / PAGE_ITEMS * DEGREE
    }

    fn touch(&mut self, nr: usize, touches: &mut Vec<TierAccess>) {
        while self.ahead.len() < nr {
            self.step();
        }
        touches.extend_from_slice(&self.ahead[..nr]);
        self.ahead.drain(..nr);
    }
}
