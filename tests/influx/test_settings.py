"""The table `[influx]`: what it takes, and what it says of mistakes."""

from tests.test_config import ConfigCase

URL = '[influx]\nurl = "http://127.0.0.1:8086"\n'


class InfluxTests(ConfigCase):
    def test_everything(self) -> None:
        influx = self.settings(
            '[influx]\nurl = "http://[::1]:8086/x"\norg = "o"\nbucket = "b"\ntoken = "t"\n'
            'interval_s = "1min"\ntimeout_s = 5\nprefix = "broker"\nmax_buffer = "2 MiB"\n'
            'gzip = false\ntags = { site = "berlin", rack = "7" }\n'
        ).influx
        assert influx is not None
        self.assertEqual((influx.url, influx.interval_s), ("http://[::1]:8086/x", 60.0))
        self.assertEqual(influx.tags, (("site", "berlin"), ("rack", "7")))
        self.assertNotIn("'t'", repr(influx))

    def test_none(self) -> None:
        self.assertIsNone(self.settings("").influx)

    def test_where_to(self) -> None:
        self.assertProblem(
            URL,
            "1: influx.org: missing; expected org and bucket, or db",
            "1: influx.bucket: missing; expected org and bucket, or db",
        )
        self.assertProblem(
            URL + 'org = "o"\n', "1: influx.bucket: missing; expected org and bucket, or db"
        )
        self.assertProblem(URL + 'db = "d"\norg = "o"\n', "4: influx.org: not together with db")
        self.assertProblem(
            URL + 'org = "o"\nbucket = "b"\nretention_policy = "r"\n',
            "5: influx.retention_policy: needs db",
        )

    def test_urls(self) -> None:
        for url in (
            "127.0.0.1:8086",
            "ftp://h",
            "http://",
            "http://u:p@h",
            "http://h/?db=x",
            "h h",
        ):
            (problem,) = self.problems(f'[influx]\nurl = "{url}"\ndb = "d"\n')
            self.assertIn("expected a string: a URL such as", problem)

    def test_secrets(self) -> None:
        self.assertProblem(
            URL + 'db = "d"\ntoken = "t"\nusername = "u"\npassword = "p"\n',
            "5: influx.username: not together with a token",
        )
        self.assertProblem(
            URL + 'db = "d"\nusername = "u"\n',
            "4: influx.username: needs password or password_file",
        )
        self.assertProblem(
            URL + 'db = "d"\ntoken = "a\\r\\nX-Evil: 1"\n',
            "4: influx.token: expected no line breaks or other control characters",
        )
        (self.folder / "token").write_text("\n")
        self.assertProblem(
            URL + 'db = "d"\ntoken_file = "token"\n',
            f"4: influx.token_file: there is no token in {self.folder / 'token'}",
        )

    def test_tls_needs_https(self) -> None:
        (self.folder / "ca.pem").write_text("x")
        (problem,) = self.problems(URL + 'db = "d"\nca = "ca.pem"\n')
        self.assertIn('needs a url that begins with "https:"', problem)
