"""`type = "certificate"`: who a client is, by the certificate that TLS has verified.

Or the proxy in front has, and says so by the PROXY protocol: then only the common name is known.
"""

from dataclasses import dataclass
from typing import Final

from mhub.auth.contract import Answer, Context, not_mine, yes
from mhub.config.kinds import Choice
from mhub.config.schema import setting
from mhub.core.authentication import Claim
from mhub.core.principal import CERTIFICATE, Certificate, Identity

ALTERNATIVES: Final = ("dns", "uri", "email")


@dataclass(frozen=True)
class Settings:
    identity: str = setting(
        Choice("cn", "subject", *ALTERNATIVES),
        "cn",
        "Which part of the certificate is the user: its common name, its whole subject, or an"
        " alternative name of that kind. Of several, the client can choose by its user name; one"
        " that does not is not identified.",
    )


def make(name: str, settings: Settings, context: Context) -> "CertificateSource":
    return CertificateSource(settings)


class CertificateSource:
    def __init__(self, settings: Settings) -> None:
        self._identity = settings.identity

    def check(self, claim: Claim) -> Answer:
        certificate = claim.principal.certificate
        if certificate is None:
            return not_mine()
        names = self._names(certificate)
        if len(names) != 1:
            names = [name for name in names if name == claim.username]
        if not names:
            return not_mine()
        return yes(Identity(names[0], CERTIFICATE))

    def _names(self, certificate: Certificate) -> list[str]:
        if self._identity == "cn":
            found = [certificate.common_name]
        elif self._identity == "subject":
            found = [certificate.subject]
        else:
            kind = self._identity + ":"
            found = [
                name.removeprefix(kind)
                for name in certificate.alternative_names
                if name.startswith(kind)
            ]
        return [name for name in found if name]

    def start(self) -> None:
        pass

    def stop(self) -> None:
        pass

    def reload(self) -> None:
        pass
