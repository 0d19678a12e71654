//! Lists of pages: their order, bulk operations, and random ones beside an oracle.
#![cfg(not(loom))]

mod bulk;
mod oracle;
mod order;
