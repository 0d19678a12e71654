//! Records of evicted pages of files, in their places in the cache (shadow entries).

use pageblock_reclaim::Evicted;

use super::FileId;
use super::owner::Name;

/// By file and page, the bits of an [`Evicted`]; 0: nothing, for a clock begins at 1.
#[derive(Debug, Default)]
pub(super) struct Shadows(Vec<Vec<u64>>);

impl Shadows {
    /// A page is gone.
    pub(super) fn leave(&mut self, name: Option<Name>, evicted: Evicted) {
        let Some(Name::File { file, index }) = name else { return };
        let (file, index) = (file as usize, index as usize);
        if self.0.len() <= file {
            self.0.resize_with(file + 1, Vec::new);
        }
        let pages = &mut self.0[file];
        if pages.len() <= index {
            pages.resize(index + 1, 0);
        }
        pages[index] = evicted.to_bits();
    }

    /// A page is there again.
    pub(super) fn take(&mut self, name: Name) -> Option<Evicted> {
        let Name::File { file, index } = name else { return None };
        let bits = std::mem::take(self.0.get_mut(file as usize)?.get_mut(index as usize)?);
        (bits != 0).then(|| Evicted::from_bits(bits))
    }

    /// A file is gone for good.
    pub(super) fn forget(&mut self, file: FileId) {
        if let Some(pages) = self.0.get_mut(file.0 as usize) {
            *pages = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shadow_is_found_once_at_its_page_and_ends_with_its_file() {
        let mut shadows = Shadows::default();
        let page = |file, index| Name::File { file, index };
        let evicted = Evicted::from_bits(7);
        shadows.leave(Some(page(3, 5)), evicted);
        shadows.leave(Some(page(4, 5)), evicted);
        shadows.leave(Some(Name::Anon { process: 3, page: 6 }), evicted);
        shadows.leave(None, evicted);
        assert_eq!([page(3, 4), page(3, 6), page(9, 0)].map(|name| shadows.take(name)), [None; 3]);
        assert_eq!([shadows.take(page(3, 5)), shadows.take(page(3, 5))], [Some(evicted), None]);
        shadows.forget(FileId(4));
        shadows.forget(FileId(99));
        assert_eq!(shadows.take(page(4, 5)), None);
    }
}
