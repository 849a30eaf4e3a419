//! Numbers in the form that people read.

/// A number of tokens or fuel in at most six characters: `12.3 k`.
pub fn short(n: u64) -> String {
    match n {
        0..1_000 => n.to_string(),
        1_000..1_000_000 => format!("{:.1} k", n as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} M", n as f64 / 1e6),
        _ => format!("{:.1} G", n as f64 / 1e9),
    }
}

/// A size of a context window in at most six characters: `64 k`, `1 M`, `1.5 M`.
pub fn tokens(n: u64) -> String {
    match n {
        0..1_000_000 => format!("{} k", n / 1000),
        _ if n % 1_000_000 < 100_000 => format!("{} M", n / 1_000_000),
        _ => format!("{:.1} M", n as f64 / 1e6),
    }
}

/// A number of bytes in binary units: `1.5 KiB`.
pub fn bytes(n: u64) -> String {
    match n {
        0..1024 => format!("{n} B"),
        1024..1_048_576 => format!("{:.1} KiB", n as f64 / 1024.0),
        _ => format!("{:.1} MiB", n as f64 / 1_048_576.0),
    }
}

/// Describes a time in the past in at most nine columns.
pub fn age(seconds: i64) -> String {
    let (n, unit) = match seconds.max(0) {
        0..60 => return "now".to_owned(),
        s @ 60..3600 => (s / 60, "min"),
        s @ 3600..86_400 => (s / 3600, "h"),
        s => (s / 86_400, "d"),
    };
    format!("{n} {unit} ago")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_short() {
        let ages = [-5, 59, 60, 7_199, 86_399, 86_400 * 400].map(age);
        assert_eq!(ages, ["now", "now", "1 min ago", "1 h ago", "23 h ago", "400 d ago"]);
    }

    #[test]
    fn tokens_are_short() {
        assert_eq!(
            [64_000, 200_000, 1_000_000, 1_048_576, 1_500_000].map(tokens),
            ["64 k", "200 k", "1 M", "1 M", "1.5 M"]
        );
    }
}
