//! The server as its clients see it, packet by packet: a server in this process, and clients that
//! speak the wire by hand.

mod client;
mod hands;
mod nonsense;
mod simulation;
