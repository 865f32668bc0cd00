"""hypothesis: topics and filters over a small alphabet, so that they meet often."""

from hypothesis import strategies as st

from mhub.wire.topics import filter_problem

LEVELS = ("a", "b", "", "$x", "ab")
topics = st.lists(st.sampled_from(LEVELS), min_size=1, max_size=4).map("/".join).filter(bool)


def _filter(levels: list[str], rest: bool) -> str:
    return "/".join([*levels, "#"] if rest else levels)


filters = st.builds(
    _filter, st.lists(st.sampled_from((*LEVELS, "+", "+")), max_size=4), st.booleans()
).filter(lambda text: not filter_problem(text))
