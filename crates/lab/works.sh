#!/bin/sh
# Writes docs/works.md: every published table of the five works beside ours. About half an hour on one CPU. Arguments go to each
# run: `--iterations 3`, or `--quick` to try it.
set -eu
cd "$(dirname "$0")/../.."
cargo build --release --quiet --package pageblock-lab --features experiments
{
    echo "# The five works' tables, published and measured"
    echo
    echo "Written by \`crates/lab/works.sh\`. [Reading the reports](reports.md) says how to read a table; [sources](sources.md)"
    echo "where each was published."
    for work in compaction munlock fragmentation fair-zones lists; do
        echo
        echo "## $work"
        echo
        target/release/pageblock run works --only "$work" "$@"
    done
} > docs/works.new
mv docs/works.new docs/works.md
