mod conformance;
mod reclaim;
mod tree;
mod workingset;
mod world;
