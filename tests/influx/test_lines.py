"""Line protocol: what is written is what a strict reader reads."""

import math
from unittest import TestCase

from hypothesis import given
from hypothesis import strategies as st

from mhub.influx.lines import LARGEST, line
from mhub.influx.points import points
from tests.admin.metrics.moment import alone, everything
from tests.influx.grammar import BadLine, Point, parse

NAMES = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1).filter(
    lambda text: not text.endswith("\\") and "\\" not in text and not text.startswith("#")
)
VALUES = st.one_of(
    st.booleans(),
    st.integers(-LARGEST, LARGEST),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=("Cs", "Cc"))),
)


def read(text: str) -> Point:
    (found,) = parse(text.encode("utf-8"))
    return found


class LineTests(TestCase):
    @given(NAMES, st.dictionaries(NAMES, NAMES), st.dictionaries(NAMES, VALUES, min_size=1))
    def test_what_is_written_is_read(
        self, name: str, tags: dict[str, str], fields: dict[str, int]
    ) -> None:
        name = name.replace("=", "")
        if not name or name.startswith("#"):
            return
        found = read(line(name, tags, fields, 1_800_000_000_000))
        self.assertEqual((found.measurement, found.tags), (name, tags))
        self.assertEqual(found.fields, fields)
        self.assertEqual(
            {key: type(value) for key, value in found.fields.items()},
            {key: type(value) for key, value in fields.items()},
        )

    @given(
        st.text(min_size=1),
        st.dictionaries(st.text(min_size=1), st.text()),
        st.dictionaries(st.text(min_size=1), st.text(), min_size=1, max_size=1),
    )
    def test_no_text_breaks_out_of_its_place(
        self, name: str, tags: dict[str, str], fields: dict[str, str]
    ) -> None:
        """Whatever an operator calls a listener: it is one line, with one field."""
        fields = {"f" + key: value for key, value in fields.items()}
        text = line("m" + name, {"t" + key: value for key, value in tags.items()}, fields, 1)
        if any(0xD800 <= ord(character) < 0xE000 for character in text):
            return
        self.assertEqual(text.count("\n"), 1)
        self.assertEqual(len(read(text).fields), 1)

    def test_by_hand(self) -> None:
        self.assertEqual(
            line("a b", {"k=": "v,1", "empty": ""}, {"f": 1, "g": 1.5, "h": 'x"\\y'}, 5),
            'a\\ b,k\\==v\\,1 f=1i,g=1.5,h="x\\"\\\\y" 5\n',
        )

    def test_a_backslash_at_the_end_of_a_tag(self) -> None:
        self.assertEqual(line("m", {"t": "a\\"}, {"f": 1}, 5), "m,t=a f=1i 5\n")

    def test_what_is_no_number_is_left_out(self) -> None:
        self.assertEqual(line("m", {}, {"f": math.nan, "g": math.inf}, 5), "")
        self.assertEqual(line("m", {}, {"f": math.nan, "g": 2.0}, 5), "m g=2.0 5\n")

    def test_integers_of_64_bits(self) -> None:
        self.assertEqual(read(line("m", {}, {"f": 2**80}, 5)).fields, {"f": 2**63 - 1})


class GrammarTests(TestCase):
    """The reader refuses what InfluxDB would."""

    def test_refused(self) -> None:
        for text in (
            "m f=1i 5",
            "m f=1i\n",
            "m  f=1i 5\n",
            "m f= 5\n",
            "m f=1i5\n",
            "m f=NaN 5\n",
            "m f=01i 5\n",
            "m,t= f=1i 5\n",
            "m,b=1,a=1 f=1i 5\n",
            "m,t=a\\ f=1i 5\n",
            'm f="a 5\n',
            "m f=1i 5 \n",
            "m f=1i,f=2i 5\n",
            "m f=99999999999999999999i 5\n",
            "\n",
        ):
            with self.assertRaises(BadLine, msg=text):
                parse(text.encode())


class PointTests(TestCase):
    def points(self, numbers: object) -> list[Point]:
        text = "".join(
            line(*point, 1_800_000_000_000)
            for point in points(numbers, "mhub", {"site": "x"})  # type: ignore[arg-type]
        )
        return parse(text.encode("utf-8"))

    def test_everything(self) -> None:
        found = self.points(everything())
        kinds = {each.measurement for each in found}
        self.assertEqual(
            kinds,
            {"mhub", "mhub_process", "mhub_listener", "mhub_authenticator", "mhub_link"},
        )
        core = found[0]
        self.assertEqual(core.tags, {"site": "x", "node": "a"})
        self.assertEqual(core.fields["publish_messages_received"], 1)
        self.assertEqual(core.fields["retained_messages_count"], 0)
        self.assertIs(core.fields["ready"], True)
        self.assertEqual(core.fields["store_commit_seconds_sum"], 20.0007)
        links = {each.tags["peer"]: each for each in found if each.measurement == "mhub_link"}
        self.assertIs(links["n1"].fields["up"], True)
        self.assertNotIn("latency_s", links["n0"].fields)
        names = [each.tags["authenticator"] for each in found if "authenticator" in each.tags]
        self.assertEqual(names, ["registry", 'we"ird\\name'])

    def test_each_field_has_one_type(self) -> None:
        """Whether it is 0 or not: a server refuses a field that changes its type."""
        before: dict[tuple[str, str], type] = {}
        for found in (*self.points(alone()), *self.points(everything())):
            for key, value in found.fields.items():
                of = before.setdefault((found.measurement, key), type(value))
                self.assertIs(of, type(value), key)
