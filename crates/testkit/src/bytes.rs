//! Operations out of a fuzzer's bytes.

use arbitrary::{Arbitrary, Result, Unstructured};
use pageblock_frame::{MigrateType, Order};

use crate::Op;

fn order(u: &mut Unstructured<'_>) -> Result<Order> {
    // Half of the time one of the small orders that real requests have.
    let limit = if u.arbitrary()? { 3 } else { Order::LIMIT.as_u8() };
    Ok(Order::saturating(u.int_in_range(0..=limit)?))
}

fn ordinary(u: &mut Unstructured<'_>) -> Result<MigrateType> {
    u.choose(&MigrateType::ALL[..MigrateType::PCP_COUNT]).copied()
}

impl<'a> Arbitrary<'a> for Op {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        Ok(match u.int_in_range(0..=26u8)? {
            0..=4 => Self::Alloc { order: order(u)?, migrate_type: ordinary(u)?, flags: *u.choose(&Self::FLAGS)? },
            5..=8 => Self::Free { victim: u.arbitrary()? },
            9 => Self::FreeWrongOrder { victim: u.arbitrary()?, order: order(u)? },
            10 => Self::DoubleFree { victim: u.arbitrary()? },
            11 => Self::FreeForeign { frame: u.arbitrary()?, order: order(u)? },
            12 => Self::FreeOutOfRange { distance: u.arbitrary()?, order: order(u)? },
            13 => Self::FreeTail { victim: u.arbitrary()?, offset: u.arbitrary()? },
            14 => Self::AllocAt { frame: u.arbitrary()?, order: order(u)? },
            15 => Self::AllocExact { frames: u32::from(u.int_in_range(0..=2100u16)?), migrate_type: ordinary(u)? },
            16 => Self::Split { victim: u.arbitrary()?, order: order(u)? },
            17 => Self::FreePart { victim: u.arbitrary()?, offset: u.arbitrary()?, frames: u.arbitrary()? },
            18 | 19 => Self::BulkAlloc { order: order(u)?, count: u.int_in_range(0..=70)?, migrate_type: ordinary(u)? },
            20 => Self::BulkFree { victim: u.arbitrary()?, count: u.int_in_range(0..=70)? },
            21 => Self::Isolate { block: u.arbitrary()? },
            22 => Self::Unisolate { block: u.arbitrary()? },
            23 => Self::Retype { block: u.arbitrary()?, migrate_type: *u.choose(&MigrateType::ALL[..5])? },
            24 => Self::Reserve { block: u.arbitrary()? },
            25 => Self::Unreserve { migrate_type: ordinary(u)? },
            _ => Self::AddMemory { piece: u.arbitrary()? },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_bytes_are_the_same_operations() {
        let bytes: Vec<u8> = (0..=255).collect();
        let ops = || {
            let mut source = Unstructured::new(&bytes);
            (0..8).map(|_| Op::arbitrary(&mut source).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(ops(), ops());
        assert!(ops().windows(2).any(|pair| pair[0] != pair[1]));
    }
}
