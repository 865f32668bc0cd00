"""The keys of `[influx]`."""

from dataclasses import dataclass
from urllib.parse import urlsplit

from mhub.config.certificates import read_file
from mhub.config.kinds import Boolean, FilePath, Place, Seconds, Secret, Size, Text, Texts, Url
from mhub.config.problems import ConfigError, Problem
from mhub.config.schema import setting
from mhub.config.servers import check_client_tls, check_password, password_of


def _is_url(text: str) -> bool:
    try:
        found = urlsplit(text)
        return (
            found.scheme in ("http", "https")
            and bool(found.hostname)
            and found.username is None
            and not found.query
            and not found.fragment
            and (found.port is None or found.port > 0)
            and text.isascii()
            and text.isprintable()
            and " " not in text
        )
    except ValueError:
        return False


@dataclass(frozen=True, repr=False)  # no repr: it would show the token
class InfluxSettings:
    url: str = setting(
        Url(check=_is_url, what='a URL such as "http://127.0.0.1:8086"'),
        "",
        "The server; a path in front of its own may follow.",
        required=True,
    )
    org: str = setting(Text(), "", "The organization, of version 2 and later.", shown="none")
    bucket: str = setting(Text(), "", "The bucket, of version 2 and later.", shown="none")
    db: str = setting(
        Text(), "", "The database, of version 1; in the place of `org` and `bucket`.", shown="none"
    )
    retention_policy: str = setting(
        Text(), "", "The retention policy in `db`.", shown="its default one"
    )
    token: str = setting(Secret(), "", "The API token, if the server wants one.", shown="none")
    token_file: str = setting(
        FilePath(),
        "",
        "A file with the token, in the place of `token`; read when the broker starts.",
        shown="none",
    )
    username: str = setting(Text(), "", "The user to log in as, of version 1.", shown="none")
    password: str = setting(Secret(), "", "The password of that user.", shown="none")
    password_file: str = setting(
        FilePath(),
        "",
        "A file with the password, in the place of `password`; read when the broker starts.",
        shown="none",
    )
    interval_s: float = setting(Seconds(1, 3600), 10.0, "How often the numbers are sent.")
    timeout_s: float = setting(Seconds(0.1, 300), 10.0, "How long a request may take.")
    prefix: str = setting(
        Text(empty=False), "mhub", "What the names of all measurements begin with."
    )
    tags: tuple[tuple[str, str], ...] = setting(
        Texts(),
        (),
        'Tags of all points, as `{ site = "berlin" }`. A node of a cluster has the tag `node`.',
    )
    max_buffer: int = setting(
        Size(64 << 10, 1 << 30),
        1 << 20,
        "How much may wait for a server that does not answer. Beyond, the oldest is dropped.",
    )
    gzip: bool = setting(Boolean(), True, "Whether requests are compressed.")
    ca: str = setting(
        FilePath(),
        "",
        "The authorities that the server's certificate must come from, in one PEM file.",
        shown="the system's",
    )
    certificate: str = setting(
        FilePath(), "", "The certificate to show to the server, as a PEM file.", shown="none"
    )
    key: str = setting(
        FilePath(), "", "Its private key, as a PEM file without a passphrase.", shown="none"
    )


def check_influx(influx: InfluxSettings, place: Place) -> None:
    report = place.report
    if influx.db:
        for name in ("org", "bucket"):
            if getattr(influx, name):
                place.at(name).wrong("not together with db")
    elif not report.covers(place.at("db").path):
        for name in ("org", "bucket"):
            if not getattr(influx, name) and not report.covers(place.at(name).path):
                place.at(name).wrong("missing; expected org and bucket, or db")
    if influx.retention_policy and not influx.db:
        place.at("retention_policy").wrong("needs db")
    if influx.token and influx.token_file:
        place.at("token_file").wrong("not together with token")
    elif influx.token_file:
        data = read_file(influx.token_file, place.at("token_file"))
        if data is not None and not data.strip():
            place.at("token_file").wrong(f"there is no token in {influx.token_file}")
    if influx.username and (influx.token or influx.token_file):
        place.at("username").wrong("not together with a token")
    for name in ("token", "password"):
        if not getattr(influx, name).isprintable():
            place.at(name).wrong("expected no line breaks or other control characters")
    check_password(influx, place)
    if not report.covers(place.at("url").path):
        is_secure = influx.url.startswith("https:")
        check_client_tls(influx, place, is_on=is_secure, on='a url that begins with "https:"')


def token_of(influx: InfluxSettings) -> str:
    """The token, from its file if it has one.  Raises ConfigError."""
    if not influx.token_file:
        return influx.token
    try:
        with open(influx.token_file, encoding="utf-8") as file:
            return file.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        text = f"token_file {influx.token_file}: {error}"
        raise ConfigError("influx", [Problem("", 0, text)]) from error


def password_of_influx(influx: InfluxSettings) -> str:
    return password_of(influx, "influx")
