use pageblock_mlock::{Placement, SoftArea, Steps};
use std::time::Instant;
fn main() {
    let pages: u64 = std::env::args().nth(1).map_or(1 << 20, |a| a.parse().unwrap());
    for placement in Placement::ALL {
        let pages = if placement == Placement::Huge { pages * 8 } else { pages };
        let tables = SoftArea::descriptors(placement, pages);
        let area = SoftArea::new(placement, pages, &tables);
        let mut base = 0.0;
        for form in 0..9u8 {
            let steps = if form == 8 { Steps::default() } else { Steps::seed(form) };
            let mut best = f64::MAX;
            let mut sum = 0.0;
            for _ in 0..8 {
                area.lock();
                assert_eq!(area.nr_mlock(), pages as i64);
                let t = Instant::now();
                area.unlock(steps);
                let e = t.elapsed().as_secs_f64();
                best = best.min(e);
                sum += e;
                assert_eq!(area.nr_mlock(), 0);
            }
            if form == 0 {
                base = best;
            }
            println!(
                "{placement:?} {form} min {:.2} ns mean {:.2} ns/page  {:+.2}%",
                best * 1e9 / pages as f64,
                sum / 8.0 * 1e9 / pages as f64,
                100.0 * (base - best) / base
            );
        }
    }
}
