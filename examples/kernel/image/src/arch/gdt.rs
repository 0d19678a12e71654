//! Segments and interrupt stacks, one set a CPU.
//!
//! Rust code keeps up to 128 bytes below its stack pointer (the red zone: the host target's libcore is built with it),
//! so **no vector may run on the interrupted stack**: each has a slot of the interrupt stack table. Interrupts do not
//! nest (interrupt gates), so they share one; a second exception while one is handled would overwrite the first and is
//! fatal.

use pageblock_frame::sync::Once;
use x86_64::instructions::segmentation::{CS, DS, ES, SS, Segment};
use x86_64::instructions::tables::load_tss;
use x86_64::structures::gdt::{Descriptor, GlobalDescriptorTable, SegmentSelector};
use x86_64::structures::tss::TaskStateSegment;
use x86_64::{PrivilegeLevel, VirtAddr};

use super::cpu::MAX_CPUS;

/// Slots of the interrupt stack table, as the gate descriptors count them (from 1).
pub mod ist {
    /// Exceptions.
    pub const EXCEPTION: u8 = 1;
    /// The non-maskable interrupt.
    pub const NMI: u8 = 2;
    /// Double fault.
    pub const DOUBLE_FAULT: u8 = 3;
    /// Machine check.
    pub const MACHINE_CHECK: u8 = 4;
    /// Device and inter-processor interrupts.
    pub const IRQ: u8 = 5;
}

const SLOTS: usize = 5;
/// An interrupt handler allocates and prints; 16 KiB are several times as much as that takes.
const STACK_BYTES: usize = 16 << 10;

/// An interrupt stack: memory that the processor writes behind the compiler's back, and Rust never reads.
#[repr(C, align(16))]
struct Stack(core::cell::UnsafeCell<[u8; STACK_BYTES]>);

// SAFETY: nothing but one CPU's stack pointer ever refers to the contents.
unsafe impl Sync for Stack {}

static STACKS: [[Stack; SLOTS]; MAX_CPUS] =
    [const { [const { Stack(core::cell::UnsafeCell::new([0; STACK_BYTES])) }; SLOTS] }; MAX_CPUS];
static TSS: [Once<TaskStateSegment>; MAX_CPUS] = [const { Once::new() }; MAX_CPUS];
static GDT: [Once<Tables>; MAX_CPUS] = [const { Once::new() }; MAX_CPUS];

/// A table and the selectors into it.
struct Tables {
    gdt: GlobalDescriptorTable,
    code: SegmentSelector,
    data: SegmentSelector,
    tss: SegmentSelector,
}

/// Loads CPU `index`'s tables.
///
/// # Panics
/// `index` is not below [`MAX_CPUS`], or this is the second call for it.
pub fn load(index: usize) {
    let mut tss = TaskStateSegment::new();
    // The structure is packed: its array is assigned whole.
    tss.interrupt_stack_table = core::array::from_fn(|slot| match STACKS[index].get(slot) {
        Some(stack) => VirtAddr::from_ptr(stack.0.get()) + STACK_BYTES as u64,
        None => VirtAddr::zero(),
    });
    TSS[index].set(tss).expect("segments loaded twice");
    let mut gdt = GlobalDescriptorTable::new();
    let code = gdt.append(Descriptor::kernel_code_segment());
    let data = gdt.append(Descriptor::kernel_data_segment());
    let tss = gdt.append(Descriptor::tss_segment(TSS[index].get().expect("set above")));
    GDT[index].set(Tables { gdt, code, data, tss }).ok().expect("segments loaded twice");
    let tables = GDT[index].get().expect("set above");
    tables.gdt.load();
    // SAFETY: the selectors are those of the table just loaded.
    unsafe {
        CS::set_reg(tables.code);
        SS::set_reg(tables.data);
        DS::set_reg(SegmentSelector::new(0, PrivilegeLevel::Ring0));
        ES::set_reg(SegmentSelector::new(0, PrivilegeLevel::Ring0));
        load_tss(tables.tss);
    }
}
