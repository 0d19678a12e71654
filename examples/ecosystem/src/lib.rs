//! pageblock under the heaps, and behind the traits, that kernels use. A kernel copies each file; its test uses
//! it.
//!
//! | file | for |
//! |---|---|
//! | `boot.rs` | memory maps out of each boot loader's tables |
//! | `linked_list.rs` | `linked_list_allocator`: a heap in a run of frames, which grows |
//! | `buddy_heap.rs` | `buddy_system_allocator`: a heap of blocks, added as they are needed |
//! | `collections.rs` | `allocator-api2`: a vector with a block as buffer |
//! | `page_tables.rs` | `page_table_multiarch`: `PagingHandler` |
//! | `virtio.rs` | `virtio-drivers`: `Hal` |
//! | `arceos.rs` | ArceOS's `PageAllocator: BaseAllocator` |
//! | `numa.rs` | the `acpi` crate: SRAT and SLIT |
//! | `rcore.rs` | rCore's `frame_alloc` and `FrameTracker` |
//! | `ostd.rs` | ostd's `GlobalFrameAllocator`, (its crate needs a nightly compiler: its shape is repeated) |

pub mod arceos;
pub mod boot;
pub mod buddy_heap;
pub mod collections;
pub mod linked_list;
pub mod machine;
pub mod numa;
pub mod ostd;
pub mod page_tables;
pub mod rcore;
pub mod virtio;
