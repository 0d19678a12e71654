//! Rows by name: each is measured in a process of its own, under the valgrind tool where it counts.

/// How a row is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Instructions, counted by the tool.
    Instructions,
    /// Lines and locks, counted by the tool.
    Lines,
    /// As the program runs: outcomes, sizes, times.
    Plain,
}

impl Kind {
    /// All of them, with the names that the scripts use.
    pub const ALL: [(Self, &'static str); 3] =
        [(Self::Instructions, "instructions"), (Self::Lines, "lines"), (Self::Plain, "metrics")];
}

/// Measures the figures of a row.
pub type Run = Box<dyn Fn() -> Vec<f64>>;

/// A measurement that gives one figure or several, each with a name.
pub struct Row {
    /// How it is measured.
    pub kind: Kind,
    /// Names of the figures; the first stands for the row.
    pub names: Vec<String>,
    /// Measures; as many figures as there are names.
    pub run: Run,
}

impl core::fmt::Debug for Row {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Row").field("kind", &self.kind).field("names", &self.names).finish_non_exhaustive()
    }
}

impl Row {
    /// A row with one figure.
    pub fn one(kind: Kind, name: impl Into<String>, run: impl Fn() -> f64 + 'static) -> Self {
        Self { kind, names: vec![name.into()], run: Box::new(move || vec![run()]) }
    }

    /// A row with several figures.
    pub fn several(kind: Kind, names: Vec<String>, run: impl Fn() -> Vec<f64> + 'static) -> Self {
        Self { kind, names, run: Box::new(run) }
    }
}

/// Whether a name is meant by a pattern: the name itself, the beginning of one up to a dot, or a pattern with stars.
#[must_use]
pub fn is_meant(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    if !pattern.contains('*') {
        return rest.is_empty() || rest.starts_with('.') || pattern.ends_with('.');
    }
    let mut last = "";
    for part in parts {
        last = part;
        match rest.find(part) {
            Some(place) => rest = rest.get(place + part.len()..).unwrap_or_default(),
            None => return false,
        }
    }
    rest.is_empty() || last.is_empty() || name.ends_with(last)
}

/// A figure as the scripts print it.
#[must_use]
pub fn written(figure: f64) -> String {
    match figure.abs() {
        _ if figure.fract() == 0.0 => format!("{figure:.0}"),
        10.0.. => format!("{figure:.1}"),
        1.0.. => format!("{figure:.2}"),
        _ => format!("{figure:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_mean_names_groups_and_what_their_stars_allow() {
        for (pattern, name, meant) in [
            ("facade.mix03.50", "facade.mix03.50", true),
            ("facade.mix03", "facade.mix03.50", true),
            ("facade.mix0", "facade.mix03.50", false),
            ("whole.*.cpus8", "whole.short.80.cpus8", true),
            ("whole.*.cpus8", "whole.short.80.cpus1", false),
            ("*.98", "facade.mixlf.98", true),
            ("facade.*", "whole.short.80.cpus8", false),
            ("facade.pair.o1", "facade.pair.o10", false),
        ] {
            assert_eq!(is_meant(pattern, name), meant, "{pattern} {name}");
        }
    }

    #[test]
    fn figures_have_as_many_places_as_they_need() {
        assert_eq!([34.0, 25.71, 2.104, 0.015_62].map(written), ["34", "25.7", "2.10", "0.0156"]);
    }
}
