//! The zstd frames of a file as one stream.

use std::error::Error;
use std::io::{self, BufRead, ErrorKind, Read};

use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// The text that the frames of `source` hold, one frame after the other; the checksum of each is compared.
pub(super) struct Decompressed<R> {
    source: R,
    decoder: FrameDecoder,
}

impl<R: BufRead> Decompressed<R> {
    pub(super) fn new(source: R) -> Self {
        Self { source, decoder: FrameDecoder::new() }
    }

    /// Compares the checksum of the frame that ended, and begins the next one; `false` at the end of the file.
    fn next_frame(&mut self) -> io::Result<bool> {
        let recorded = self.decoder.get_checksum_from_data();
        if recorded.is_some() && recorded != self.decoder.get_calculated_checksum() {
            return Err(io::Error::other("the text does not match its checksum"));
        }
        while !self.source.fill_buf()?.is_empty() {
            match self.decoder.reset(&mut self.source) {
                Ok(()) => return Ok(true),
                // A frame of something else, which the format says to pass over.
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                    io::copy(&mut self.source.by_ref().take(length.into()), &mut io::sink())?;
                }
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(false)
    }
}

impl<R: BufRead> Read for Decompressed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.decoder.can_collect() == 0 {
            if !self.decoder.is_finished() {
                self.decoder.decode_blocks(&mut self.source, BlockDecodingStrategy::UptoBlocks(1)).map_err(failed)?;
            } else if !self.next_frame()? {
                return Ok(0);
            }
        }
        self.decoder.read(buffer)
    }
}

/// The decoder's error with the kind of the reader's error below it: a file that is cut short is told from a damaged
/// one.
fn failed(error: FrameDecoderError) -> io::Error {
    let causes = std::iter::successors(error.source(), |cause| (*cause).source());
    let kind = causes.filter_map(|cause| cause.downcast_ref::<io::Error>()).map(io::Error::kind).next();
    io::Error::new(kind.unwrap_or(ErrorKind::Other), error)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// "pages\n" in a frame with its checksum.
    const FRAME: &[u8] = b"\x28\xb5\x2f\xfd\x04\x58\x31\x00\x00pages\n\xbd\xce\x6e\x73";
    /// Three bytes of something else.
    const SKIPPED: &[u8] = b"\x50\x2a\x4d\x18\x03\x00\x00\x00abc";

    fn read(file: &[u8]) -> io::Result<String> {
        io::read_to_string(Decompressed::new(file))
    }

    #[test]
    fn one_frame_follows_another() {
        assert_eq!(read(&[SKIPPED, FRAME, SKIPPED, FRAME].concat()).unwrap(), "pages\npages\n");
    }

    #[test]
    fn a_frame_that_is_cut_short_is_told_from_a_damaged_one() {
        for length in 1..FRAME.len() {
            assert_eq!(read(&FRAME[..length]).unwrap_err().kind(), ErrorKind::UnexpectedEof, "{length} bytes");
        }
        let mut damaged = FRAME.to_vec();
        damaged[10] ^= 1;
        assert_eq!(read(&damaged).unwrap_err().kind(), ErrorKind::Other);
    }
}
