//! Adapters to other crates, each behind a feature of that crate's name. Memory maps are converted by `Region`'s
//! `From` implementations, which the features of the same names in `pageblock-memmap` turn on.

#[cfg(feature = "defmt")]
mod defmt;
#[cfg(feature = "log")]
mod log;
#[cfg(feature = "talc")]
mod talc;
#[cfg(feature = "x86_64")]
mod x86_64;

#[cfg(feature = "log")]
pub use log::log_event;
#[cfg(feature = "talc")]
pub use talc::FrameSource;
