"""The authenticators of the configuration, asked one after the other.

    CONNECT              -> Chain.authenticate -> source.check, in the order of the file -> Step
    CONNECT, AUTH        -> Chain.methods[NAME](claim).step(data)
      SCRAM-SHA-256          the first source of the listener that knows the name has the verifier
      JWT, ...               source.check_token, in the order of the file

What a source answers is in `mhub.auth.contract`.  The first yes or no counts.  What holds whoever
said yes is decided here: a user whom the registry has locked is not let in, and has the tenant and
the attributes of the registry where the source gave none.  So is what must not differ between the
sources: a login with a password that fails takes as long, and is answered the same, for a name that
nobody knows as for a wrong password.

A source may answer later; then the core waits for a Later, and the source's Deferred is cancelled
if nobody waits for it any more.
"""

import secrets
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, Final

from twisted.internet.defer import CancelledError, Deferred
from twisted.python.failure import Failure

from mhub.access.scopes import TOKEN_USER
from mhub.auth import contract
from mhub.auth.contract import Answer, Source, cannot_tell, is_plain
from mhub.auth.lookup import tenant_of, user_entry
from mhub.auth.passwords import Busy, Passwords
from mhub.auth.scram import METHOD, ScramExchange
from mhub.auth.users import ITERATIONS, KEY_SIZE, SALT_SIZE, Verifier
from mhub.core.authentication import SUCCESS, Claim, Exchange, Later, Step, failure, success
from mhub.core.principal import Identity
from mhub.log import logger
from mhub.operations.contract import AuthenticatorStatus
from mhub.wire import reasons

REFUSE: Final = "refuse"

Question = Callable[[Claim], "Answer | Deferred[Answer]"]


class Member:
    """A source with its place in the chain, and what became of those it was asked about."""

    def __init__(
        self, name: str, source: Source, listeners: Sequence[str] = (), on_error: str = REFUSE
    ) -> None:
        self.name = name
        self.source = source
        self.listeners = listeners  # empty: all
        self.on_error = on_error
        self.answers = dict.fromkeys(
            (contract.YES, contract.NO, contract.NOT_MINE, contract.CANNOT_TELL), 0
        )
        self.failing = False  # the last time it could not tell
        self.problem = ""  # why

    def applies_to(self, listener: str) -> bool:
        return not self.listeners or listener in self.listeners


class Chain:
    """The core's Authenticator; `methods` are those of enhanced authentication."""

    def __init__(self, members: Iterable[Member], hub: Any, passwords: Passwords) -> None:
        self.members = list(members)
        self._hub = hub
        self._passwords = passwords
        self._by_listener: dict[str, list[Member]] = {}
        names = {getattr(each.source, "method", "") for each in self.members} - {""}
        self.methods: dict[str, Callable[[Claim], Exchange]] = {
            name: _TokenMethod(self, name) for name in sorted(names)
        }
        if any(hasattr(each.source, "scram") for each in self.members):
            self.methods[METHOD] = _ScramMethod(self)

    def members_of(self, listener: str) -> list[Member]:
        found = self._by_listener.get(listener)
        if found is None:
            found = [member for member in self.members if member.applies_to(listener)]
            self._by_listener[listener] = found
        return found

    def start(self) -> None:
        for member in self.members:
            member.source.start()

    async def stop(self, reactor: Any, timeout_s: float) -> None:
        """What a source does wrong then must not keep the broker from going on with its stop."""
        for member in self.members:
            try:
                stopped = member.source.stop()
                if stopped is not None:
                    await stopped.addTimeout(timeout_s, reactor)
            except Exception as error:
                self._hub.events.crashed(f"the end of the authenticator {member.name}", error)

    def reload(self) -> None:
        for member in self.members:
            try:
                member.source.reload()
            except Exception as error:
                self._hub.events.crashed(f"a reload of the authenticator {member.name}", error)

    def status(self) -> list[AuthenticatorStatus]:
        return [
            AuthenticatorStatus(
                name=member.name,
                state=f"failing: {member.problem}" if member.failing else "ok",
                accepted=member.answers[contract.YES],
                refused=member.answers[contract.NO],
                passed_on=member.answers[contract.NOT_MINE],
                errors=member.answers[contract.CANNOT_TELL],
            )
            for member in self.members
        ]

    # Passwords, certificates: what CONNECT brings

    def authenticate(self, claim: Claim) -> Step | Later:
        members = self.members_of(claim.principal.listener)
        if not members:
            return success(Identity("", ""))
        questions: list[tuple[Member, Question]] = [(each, each.source.check) for each in members]
        return as_step(self.decide(claim, questions, claim.password is not None))

    async def decide(
        self, claim: Claim, questions: list[tuple[Member, Question]], wants_to_be_somebody: bool
    ) -> Step:
        """Ask one after the other; the Step is of the first that says yes or no."""
        if claim.username is not None and not is_plain(claim.username):
            # It would get into headers, queries and logs of others.
            return failure("a user name with control characters", reasons.BAD_USER_OR_PASSWORD)
        unsure: Step | None = None
        for member, question in questions:
            answer = await self._ask(member, question, claim)
            if answer.outcome == contract.YES:
                assert answer.identity is not None
                return self.admit(answer.identity)
            if answer.outcome == contract.NO:
                busy = await self._pay(claim, member)
                if busy is not None:
                    return busy
                return _refused(f"{member.name}: {answer.text}", answer.reason, claim, [member])
            if answer.outcome == contract.CANNOT_TELL:
                unsure = failure(f"{member.name}: {answer.text}", answer.reason)
                if answer.reason == reasons.SERVER_BUSY or member.on_error == REFUSE:
                    return unsure
        if not wants_to_be_somebody:
            return success(Identity("", ""))
        if unsure is not None:
            # The password may well be right: who keeps it must not be told otherwise, nor locked
            # out.
            return unsure
        busy = await self._pay(claim, None)
        if busy is not None:
            return busy
        name = f"the user {claim.username!r}" if claim.username else "this client"
        text = f"no authenticator accepts {name}"
        members = [member for member, _ in questions]
        return _refused(text, reasons.BAD_USER_OR_PASSWORD, claim, members)

    async def _ask(self, member: Member, question: Question, claim: Claim) -> Answer:
        try:
            given = question(claim)
            answer = await given if isinstance(given, Deferred) else given
        except CancelledError:
            raise  # nobody waits
        except Busy as busy:
            answer = cannot_tell(str(busy), reasons.SERVER_BUSY)
        except Exception as error:
            if not member.failing:
                self._hub.events.crashed(f"the authenticator {member.name}", error)
            answer = cannot_tell(f"it failed: {type(error).__name__}")
        member.answers[answer.outcome] += 1
        self._note_health(member, answer)
        return answer

    def _note_health(self, member: Member, answer: Answer) -> None:
        """Say once that a source cannot tell, and once that it can again."""
        if answer.outcome == contract.CANNOT_TELL:
            if answer.reason == reasons.SERVER_BUSY:
                return
            self._hub.stats.authentication_errors += 1
            member.problem = answer.text
            if not member.failing:
                member.failing = True
                self._hub.events.source_failed(member.name, answer.text)
        elif member.failing and answer.outcome != contract.NOT_MINE and not answer.remembered:
            member.failing = False
            self._hub.events.source_recovered(member.name)

    async def _pay(self, claim: Claim, judge: Member | None) -> Step | None:
        """Make a login that fails cost the same, whoever knows the name: `judge`, or nobody.

        A Step if it cannot be paid for, as too many wait.
        """
        if claim.password is None:
            return None
        for member in self.members_of(claim.principal.listener):
            decoy = getattr(member.source, "decoy", None)
            text = decoy() if decoy is not None and member is not judge else ""
            if not text:
                continue
            try:
                await self._passwords.verify(text, claim.password, claim.principal.address)
            except Busy as busy:
                return failure(str(busy), reasons.SERVER_BUSY)
            except ValueError:
                continue  # a hash that cannot be checked costs nobody anything
        return None

    # What holds whoever said yes

    def admit(self, given: Identity, data: bytes = b"") -> Step:
        step = self._judge(given, data)
        if step.outcome == SUCCESS and given.user:
            self._hub.stats.authentications += 1
        return step

    def _judge(self, given: Identity, data: bytes) -> Step:
        identity = given.copy()  # what the registry says may be another thing the next time
        user = identity.user
        if not is_plain(user):
            return failure("a user name with control characters", reasons.NOT_AUTHORIZED)
        if user.startswith(TOKEN_USER):
            # Rules about an API token are for that token alone, which no authenticator proves.
            return failure(f"the user {user!r} is called like a token", reasons.NOT_AUTHORIZED)
        entry = user_entry(self._hub, user) if user else None
        if entry is not None:
            if entry.get("locked"):
                return failure(f"the user {user!r} is locked", reasons.NOT_AUTHORIZED)
            if not identity.tenant and not identity.attributes:
                identity.tenant, identity.attributes = tenant_of(entry)
        if not _is_text(identity):
            return failure("something about the user that is no text", reasons.NOT_AUTHORIZED)
        step = success(identity, data)
        step.again = lambda: self._judge(given, data)
        return step


class _TokenMethod:
    """An authentication method by which a client sends a token, and later the next one."""

    def __init__(self, chain: Chain, name: str) -> None:
        self._chain = chain
        self._name = name

    def __call__(self, claim: Claim) -> Exchange:
        members = [
            member
            for member in self._chain.members_of(claim.principal.listener)
            if getattr(member.source, "method", "") == self._name
        ]
        return _TokenExchange(self._chain, claim, members) if members else _NotHere()


class _TokenExchange:
    def __init__(self, chain: Chain, claim: Claim, members: list[Member]) -> None:
        self._chain = chain
        self._claim = claim
        self._members = members

    def step(self, data: bytes) -> Step | Later:
        questions: list[tuple[Member, Question]] = [
            (member, _Token(member.source, data)) for member in self._members
        ]
        return as_step(self._chain.decide(self._claim, questions, True))


class _Token:
    def __init__(self, source: Any, token: bytes) -> None:
        self._source = source
        self._token = token

    def __call__(self, claim: Claim) -> "Answer | Deferred[Answer]":
        answer: Answer | Deferred[Answer] = self._source.check_token(claim, self._token)
        return answer


class _ScramMethod:
    def __init__(
        self, chain: Chain, make_nonce: Callable[[], str] = lambda: secrets.token_urlsafe(24)
    ) -> None:
        self._chain = chain
        self._make_nonce = make_nonce
        self._secret = secrets.token_bytes(KEY_SIZE)  # where no source has one

    def __call__(self, claim: Claim) -> Exchange:
        sources = [
            member.source
            for member in self._chain.members_of(claim.principal.listener)
            if hasattr(member.source, "scram")
        ]
        if not sources:
            return _NotHere()
        verifiers = _Verifiers(sources, self._secret)
        return _ScramExchange(self._chain, ScramExchange(verifiers, self._make_nonce()))


class _ScramExchange:
    """One login, with what holds for all users."""

    def __init__(self, chain: Chain, exchange: ScramExchange) -> None:
        self._chain = chain
        self._exchange = exchange

    def step(self, data: bytes) -> Step:
        step = self._exchange.step(data)
        if step.outcome == SUCCESS and step.identity is not None:
            return self._chain.admit(step.identity, step.data)
        return step


class _Verifiers:
    """What the sources of a listener have for SCRAM, as one."""

    def __init__(self, sources: list[Any], secret: bytes) -> None:
        self._sources = sources
        self._secret = secret

    def find(self, name: str) -> tuple[Verifier, Identity | None] | None:
        for source in self._sources:
            found: tuple[Verifier, Identity | None] | None = source.scram(name)
            if found is not None:
                return found
        return None

    def decoy(self) -> tuple[int, int, bytes]:
        shape = (ITERATIONS, SALT_SIZE)
        for source in self._sources:
            iterations, salt_size, secret = source.scram_decoy()
            if secret:
                return iterations, salt_size, secret
            shape = (iterations, salt_size)
        return (*shape, self._secret)


class _NotHere:
    """The method is for other listeners."""

    def step(self, data: bytes) -> Step:
        text = "this authentication method is not for this listener"
        return failure(text, reasons.BAD_AUTHENTICATION_METHOD)


def _is_text(identity: Identity) -> bool:
    """Whether all that is known of a user can be stored, and sent to other nodes, as UTF-8.

    Half of a surrogate pair cannot, and JSON can have one: in a token, or from a server.
    """
    attributes = identity.attributes
    try:
        for text in (
            *(identity.user, identity.tenant, *identity.roles, *identity.grants),
            *(*attributes, *attributes.values()),
        ):
            text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _refused(text: str, reason: int, claim: Claim, members: Iterable[Member]) -> Step:
    """A login that failed, with whom the first of these takes the client for.

    What decides nothing, as the user name where devices are known by their client ids, is not what
    failures are counted by: it could be another one with each guess.
    """
    step = failure(text, reason)
    for member in members:
        name_of = getattr(member.source, "name_of", None)
        step.user = name_of(claim) if name_of is not None else ""
        if step.user:
            break
    return step


def as_step(deciding: Coroutine[Any, Any, Step]) -> Step | Later:
    """A Step if it is known by now; else a Later that the Step is given to."""
    deferred: Deferred[Step] = Deferred.fromCoroutine(deciding)
    later = Later()

    def decided(result: Step | Failure) -> None:
        if isinstance(result, Step):
            later.give(result)
            return
        text = "authentication was cancelled"  # by who waits, who is not told then, or by a stop
        if not isinstance(result.value, CancelledError):
            text = "a defect in mhub, please report it"
            logger("auth").failure("{text}", result, text=text)
        later.give(failure(text, reasons.SERVER_UNAVAILABLE))

    deferred.addBoth(decided)
    if later.step is not None:
        return later.step
    later.on_abandon = deferred.cancel
    return later
