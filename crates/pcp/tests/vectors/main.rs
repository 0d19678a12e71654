//! Figures that Linux's formulas give, and the points of the review of *High-order per-CPU lists*, on a zone with one
//! CPU.
#![cfg(not(loom))]

mod machine;
mod requests;
mod review;
mod selftuned;
mod tuning;
