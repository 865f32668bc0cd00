"""Numbers as people read them, in at most seven characters."""


def span(nanoseconds: float) -> str:
    """A time with three digits: "870ns", "23.4us", "1.05ms", "12.0s"."""
    value = float(nanoseconds)
    for unit in ("ns", "us", "ms"):
        if value < 999.5:
            return _three(value) + unit
        value /= 1000
    return _three(value) + "s"


def count(number: float) -> str:
    """Whole, with commas; one decimal where the number is small."""
    return f"{number:,.1f}" if number < 10 else f"{number:,.0f}"


def short(number: int) -> str:
    """At most seven characters: millions are rounded."""
    return f"{number:,}" if number < 1_000_000 else f"{number / 1e6:,.1f}M"


def _three(value: float) -> str:
    if value < 9.995:
        return f"{value:.2f}"
    return f"{value:.1f}" if value < 99.95 else f"{value:.0f}"
