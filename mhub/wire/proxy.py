"""The PROXY protocol header, versions 1 and 2: who the client is, as a proxy in front of us saw it.

    v1   PROXY TCP4 192.0.2.7 198.51.100.1 56324 1883\\r\\n
    v2   signature (12) | version, command (1) | family (1) | length (2) | addresses | TLVs

`parse` is given all bytes since the connection began and keeps nothing between two calls.  It knows
a header that cannot become one from its first wrong byte on.  Only a listener that is told to trust
its peers may ask it.  The optional CRC32c of version 2 is not checked: TCP has checked the bytes.
"""

from ipaddress import IPv4Address, IPv6Address
from typing import Final

MAX_V1: Final = 107
"""The longest line of version 1, CR and LF included."""

MAX_V2: Final = 4096
"""The largest length a header of version 2 may state; with a certificate's name it is about 300."""

_START_V1: Final = b"PROXY "
_START_V2: Final = b"\r\n\r\n\x00\r\nQUIT\n"
_FIXED_V2: Final = 16

_LOCAL: Final = 0x20
_PROXY: Final = 0x21
_INET: Final = 0x1
_INET6: Final = 0x2
_UNIX: Final = 0x3

_TLV_SSL: Final = 0x20
_TLV_SSL_CN: Final = 0x22
_SSL: Final = 0x01
_CERTIFICATE: Final = 0x02 | 0x04
"""The client gave a certificate on this connection, or on an earlier one of the TLS session."""


class ProxyFault(ValueError):
    """The bytes are no PROXY header; `text` says why."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class ProxyHeader:
    """What a header said, and how many bytes it took."""

    def __init__(self, length: int, host: str = "", port: int = 0) -> None:
        self.length = length
        self.host = host
        """The client's address, or the path of its Unix socket; empty if the proxy does not tell
        (its own health checks, for one)."""
        self.port = port
        self.tls = False
        """The client spoke TLS to the proxy."""
        self.common_name = ""
        """The CN of the client's certificate, if the proxy verified it."""


def parse(data: bytes) -> ProxyHeader | None:
    """The header at the start of `data`; None while more bytes may complete one."""
    start = data[:1]
    if start == b"P":
        return _parse_v1(data)
    if start == b"\r":
        return _parse_v2(data)
    if start:
        raise ProxyFault(f"no PROXY header: begins with {data[:8].hex(' ')}")
    return None


def _expect_start(data: bytes, start: bytes) -> bool:
    """Whether all of `start` is there; a fault if the bytes differ from it."""
    if data.startswith(start):
        return True
    if start.startswith(data):
        return False
    raise ProxyFault(f"no PROXY header: begins with {data[: len(start)].hex(' ')}")


def _parse_v1(data: bytes) -> ProxyHeader | None:
    if not _expect_start(data, _START_V1):
        return None
    stop = data.find(b"\r\n", 0, MAX_V1)
    if stop < 0:
        if len(data) >= MAX_V1:
            raise ProxyFault(f"PROXY line longer than {MAX_V1} bytes")
        line = data[len(_START_V1) :]
        # A CR at the end may be the first half of the line's end.
        _check_line(line[:-1] if line.endswith(b"\r") else line)
        return None
    line = data[len(_START_V1) : stop]
    _check_line(line)
    words = line.decode("ascii").split(" ")
    if words[0] == "UNKNOWN":
        return ProxyHeader(stop + 2)
    if len(words) != 5:
        raise ProxyFault("PROXY line without two addresses and two ports")
    host = _address(words[0], words[1])
    _address(words[0], words[2])
    port = _port(words[3])
    _port(words[4])
    return ProxyHeader(stop + 2, host, port)


def _check_line(line: bytes) -> None:
    """Fault what no further byte can turn into a line of version 1."""
    for byte in line:
        if byte < 0x20 or byte > 0x7E:
            raise ProxyFault(f"PROXY line with the byte {byte:#04x}")
    family = line.split(b" ", 1)[0]
    whole = len(family) < len(line)
    for known in (b"TCP4", b"TCP6", b"UNKNOWN"):
        if family == known or (not whole and known.startswith(family)):
            return
    raise ProxyFault(f"PROXY line for {family.decode('ascii')!r}, not TCP4, TCP6 or UNKNOWN")


def _address(family: str, text: str) -> str:
    try:
        if family == "TCP4":
            return str(IPv4Address(text))
        # A zone ("%eth0") means something on the proxy's machine only.
        if family == "TCP6" and "%" not in text:
            return _show_v6(IPv6Address(text))
    except ValueError:
        pass
    raise ProxyFault(f"PROXY line with {text!r} for an address of {family}")


def _show_v6(address: IPv6Address) -> str:
    """An IPv4 client of a proxy that listens on both is shown as what it is."""
    inner = address.ipv4_mapped
    return str(address) if inner is None else str(inner)


def _port(text: str) -> int:
    if text.isdigit() and len(text) <= 5 and (text == "0" or not text.startswith("0")):
        port = int(text)
        if port <= 0xFFFF:
            return port
    raise ProxyFault(f"PROXY line with {text!r} for a port")


def _parse_v2(data: bytes) -> ProxyHeader | None:
    if not _expect_start(data, _START_V2):
        return None
    have = len(data)
    if have > 12 and data[12] != _LOCAL and data[12] != _PROXY:
        raise ProxyFault(f"PROXY header of unknown version and command {data[12]:#04x}")
    if have > 13 and (data[13] >> 4 > _UNIX or data[13] & 0x0F > 2):
        raise ProxyFault(f"PROXY header for the unknown family {data[13]:#04x}")
    if have < _FIXED_V2:
        return None
    size = data[14] << 8 | data[15]
    if size > MAX_V2:
        raise ProxyFault(f"PROXY header of {size} bytes, at most {MAX_V2} are allowed")
    family = data[13] >> 4
    # LOCAL is the proxy speaking for itself, and a family or protocol of 0 is one it does not
    # know: what the header says besides is to be skipped unread.
    silent = data[12] == _LOCAL or family == 0 or data[13] & 0x0F == 0
    used = 0 if silent else _addresses_size(family)
    if size < used:
        raise ProxyFault(f"PROXY header of {size} bytes, too short for its addresses")
    length = _FIXED_V2 + size
    if have < length:
        return None
    header = ProxyHeader(length)
    if not silent:
        _read_source(header, family, data[_FIXED_V2 : _FIXED_V2 + used])
        _read_tlvs(header, data[_FIXED_V2 + used : length])
    return header


def _addresses_size(family: int) -> int:
    if family == _INET:
        return 12
    return 36 if family == _INET6 else 216


def _read_source(header: ProxyHeader, family: int, block: bytes) -> None:
    if family == _INET:
        header.host = str(IPv4Address(block[:4]))
        header.port = block[8] << 8 | block[9]
    elif family == _INET6:
        header.host = _show_v6(IPv6Address(block[:16]))
        header.port = block[32] << 8 | block[33]
    else:
        header.host = block[:108].split(b"\x00", 1)[0].decode("utf-8", "replace")


def _read_tlvs(header: ProxyHeader, data: bytes) -> None:
    for kind, value in _tlvs(data):
        if kind == _TLV_SSL:
            _read_ssl(header, value)


def _read_ssl(header: ProxyHeader, value: bytes) -> None:
    if len(value) < 5:
        raise ProxyFault("PROXY header whose TLS part is too short")
    client = value[0]
    header.tls = client & _SSL != 0
    # The name is worth something only if the proxy checked the certificate and found it good.
    verified = client & _CERTIFICATE != 0 and value[1:5] == b"\x00\x00\x00\x00"
    for kind, name in _tlvs(value[5:]):
        if kind == _TLV_SSL_CN and verified:
            try:
                header.common_name = name.decode()
            except UnicodeDecodeError:
                raise ProxyFault("PROXY header with a common name that is not UTF-8") from None


def _tlvs(data: bytes) -> list[tuple[int, bytes]]:
    found: list[tuple[int, bytes]] = []
    pos = 0
    end = len(data)
    while pos < end:
        if end - pos < 3:
            raise ProxyFault("PROXY header that ends inside a TLV")
        start = pos + 3
        stop = start + (data[pos + 1] << 8 | data[pos + 2])
        if stop > end:
            raise ProxyFault("PROXY header that ends inside a TLV")
        found.append((data[pos], data[start:stop]))
        pos = stop
    return found
