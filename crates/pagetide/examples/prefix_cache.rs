//! The prefix cache of a language-model server: blocks of tokens in a tree, where leaves leave
//! first.
//!
//!   cargo run --release -p pagetide --example prefix_cache -- s3fifo
//!
//! A block is the result of some tokens after all tokens before. A server shares the blocks of
//! equal prefixes, such as system prompts and the turns of a chat. A block is useful only with its
//! parent, so the tree pins a parent once for each child, and the policy chooses among the leaves.

use pagetide::policy::{Capacity, InsertError, Policy, PolicyName, key_of};
use std::collections::HashMap;

const BLOCK_TOKENS: usize = 16;

/// A resident block. The memory of its keys and values is of no matter here.
struct Block {
    parent: Option<u64>,
}

struct PrefixCache {
    policy: Policy,
    blocks: HashMap<u64, Block>,
}

impl PrefixCache {
    fn new(name: PolicyName, nr_blocks: u64) -> Result<PrefixCache, Box<dyn std::error::Error>> {
        let policy = Policy::new(name, Capacity::entries(nr_blocks))?;
        Ok(PrefixCache { policy, blocks: HashMap::new() })
    }

    /// Serves a prompt. Returns the number of blocks that did not have to be computed.
    fn serve(&mut self, tokens: &[u32]) -> usize {
        let prompt = keys(tokens);
        let nr_hits = prompt.iter().take_while(|key| self.policy.access(**key)).count();
        // Each block pins its parent before the next one is inserted, so the path stays.
        let mut parent = nr_hits.checked_sub(1).map(|last| prompt[last]);
        for key in &prompt[nr_hits..] {
            if let Some(parent) = parent {
                self.policy.pin(parent);
            }
            if self.insert(*key).is_err() {
                // All memory is in use by longer prompts. The rest is computed, and not kept.
                parent.map(|parent| self.policy.unpin(parent));
                break;
            }
            self.blocks.insert(*key, Block { parent });
            parent = Some(*key);
        }
        nr_hits
    }

    fn insert(&mut self, key: u64) -> Result<(), InsertError> {
        let mut orphans = Vec::new();
        let inserted = self.policy.insert(key).map(|_| ());
        for evicted in self.policy.evicted() {
            let block = self.blocks.remove(evicted).expect("the tree has the keys of the policy");
            orphans.extend(block.parent);
        }
        for parent in orphans {
            assert!(self.policy.unpin(parent), "a parent outlives its children");
        }
        inserted
    }
}

/// Returns the key of each whole block: of its tokens and of all before.
fn keys(tokens: &[u32]) -> Vec<u64> {
    let chunks = tokens.chunks_exact(BLOCK_TOKENS);
    chunks
        .scan(0_u64, |before, chunk| {
            let bytes = chunk.iter().flat_map(|token| token.to_le_bytes());
            let bytes: Vec<u8> = before.to_le_bytes().into_iter().chain(bytes).collect();
            *before = key_of(&bytes);
            Some(*before)
        })
        .collect()
}

/// Makes prompts: a system prompt, then the turns of a chat so far. Single questions come between.
fn prompts() -> Vec<Vec<u32>> {
    let mut random = 1_u64;
    let mut below = move |end: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) % end
    };
    let text = |id: u64, nr_tokens: usize| -> Vec<u32> {
        (0..nr_tokens as u32).map(|at| id as u32 * 31 + at * 7).collect()
    };
    let mut chats: Vec<Vec<u32>> = (0..60).map(|nth| text(nth % 6, 256)).collect();
    let mut prompts = Vec::new();
    for nth in 0..2000 {
        if below(2) == 0 {
            let mut single = text(below(6), 256);
            single.extend(text(1_000_000 + nth, 512));
            prompts.push(single);
            continue;
        }
        let of = below(60).min(below(60)) as usize;
        if chats[of].len() > 2048 {
            chats[of] = text(of as u64 % 6, 256);
        }
        chats[of].extend(text(2_000_000 + nth, 64));
        prompts.push(chats[of].clone());
    }
    prompts
}

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let names: Vec<PolicyName> = match std::env::args().nth(1).map(|name| name.parse()) {
        Some(Ok(name)) => vec![name],
        _ => vec![PolicyName::Lru, PolicyName::S3Fifo, PolicyName::Pagetide],
    };
    let prompts = prompts();
    let nr_blocks: usize = prompts.iter().map(|prompt| prompt.len() / BLOCK_TOKENS).sum();
    for name in names {
        let mut cache = PrefixCache::new(name, 600)?;
        let nr_hits: usize = prompts.iter().map(|prompt| cache.serve(prompt)).sum();
        cache.check();
        let percent = 100.0 * nr_hits as f64 / nr_blocks as f64;
        println!("{name}: {percent:.1} % of {nr_blocks} blocks were there");
    }
    Ok(())
}

impl PrefixCache {
    /// Checks that each parent is present, and pinned once for each child.
    fn check(&mut self) {
        let mut nr_children = HashMap::<u64, u32>::new();
        for parent in self.blocks.values().filter_map(|block| block.parent) {
            assert!(self.policy.contains(parent), "no block is without its parent");
            *nr_children.entry(parent).or_default() += 1;
        }
        assert_eq!(self.policy.len(), self.blocks.len() as u64);
        assert_eq!(self.policy.stats().nr_pinned, nr_children.len() as u64);
    }
}
