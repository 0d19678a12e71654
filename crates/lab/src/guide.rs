//! The guide's chapters: their programs are compiled and run as documentation tests; `tests/tool/guide.rs` looks at the
//! commands.

#[doc = include_str!("../../../docs/concepts.md")]
struct Concepts;

#[doc = include_str!("../../../docs/tutorials.md")]
struct Tutorials;

#[doc = include_str!("../../../docs/boot.md")]
struct Boot;

#[doc = include_str!("../../../docs/embedding.md")]
struct Embedding;

#[doc = include_str!("../../../docs/configuration.md")]
struct Configuration;

#[doc = include_str!("../../../docs/settings.md")]
struct Settings;

#[doc = include_str!("../../../docs/porting.md")]
struct Porting;

#[doc = include_str!("../../../docs/loom.md")]
struct Loom;

#[doc = include_str!("../../../docs/measure.md")]
struct Measure;

#[doc = include_str!("../../../docs/reports.md")]
struct Reports;

#[doc = include_str!("../../../docs/experiments.md")]
struct Experiments;

#[doc = include_str!("../../../docs/fidelity.md")]
struct Fidelity;

#[doc = include_str!("../../../docs/expectations.md")]
struct Expectations;

#[doc = include_str!("../../../docs/conformance.md")]
struct Conformance;

#[doc = include_str!("../../../docs/sources.md")]
struct Sources;

#[doc = include_str!("../../../docs/soundness.md")]
struct Soundness;
