"""What the users and tenants of this node have: connections, sessions, subscriptions, retained
messages, and the buckets that all connections of one share.

Who has not proved a user has no account for one, whatever name it gives.  An account is there as
long as something is counted in it, or as its buckets are not full.

A session says what it is (`update`), as often as it likes: what was counted of it before is kept
with it (`Counted`), so that nothing is counted twice, and what somebody forgot to say is right
again with the next time.
"""

from mhub.core import events
from mhub.core.limits import Limits
from mhub.core.principal import Principal
from mhub.core.rates import Buckets


class Account:
    def __init__(self) -> None:
        self.connections = 0
        self.sessions = 0
        self.subscriptions = 0
        self.retained = 0
        self.buckets: Buckets | None = None  # None: no limit has ever asked for them

    def rates(self) -> Buckets:
        if self.buckets is None:
            self.buckets = Buckets()
        return self.buckets

    def is_over(self, now: float) -> bool:
        return (
            not self.connections
            and not self.sessions
            and not self.retained
            and (self.buckets is None or self.buckets.is_full(now))
        )


class Counted:
    """What one session counts for."""

    def __init__(self, user: str, tenant: str) -> None:
        self.user = user
        self.tenant = tenant
        self.connected = False
        self.subscriptions = 0


class Accounts:
    def __init__(self) -> None:
        self.users: dict[str, Account] = {}
        self.tenants: dict[str, Account] = {}

    def user(self, name: str) -> Account | None:
        """None: there is no such user, or nobody has proved to be one."""
        return _account(self.users, name)

    def tenant(self, name: str) -> Account | None:
        return _account(self.tenants, name)

    def update(
        self, counted: Counted | None, principal: Principal, connected: bool, subscriptions: int
    ) -> Counted | None:
        """A session is this now; what is counted of it."""
        user = principal.user
        tenant = principal.tenant
        if counted is not None and (counted.user != user or counted.tenant != tenant):
            self.forget(counted)
            counted = None
        if counted is None:
            if not user and not tenant:
                return None
            counted = Counted(user, tenant)
            self._add(counted, 1, 0, 0)
        self._add(
            counted,
            0,
            int(connected) - int(counted.connected),
            subscriptions - counted.subscriptions,
        )
        counted.connected = connected
        counted.subscriptions = subscriptions
        return counted

    def forget(self, counted: Counted) -> None:
        """The session is over."""
        self._add(counted, -1, -int(counted.connected), -counted.subscriptions)
        counted.connected = False
        counted.subscriptions = 0

    def _add(self, counted: Counted, sessions: int, connections: int, subscriptions: int) -> None:
        for accounts, name in ((self.users, counted.user), (self.tenants, counted.tenant)):
            account = _account(accounts, name)
            if account is not None:
                account.sessions += sessions
                account.connections += connections
                account.subscriptions += subscriptions

    def add_retained(self, owner: str, change: int) -> None:
        """One more at another topic, or one less; `owner` is an owner_of()."""
        user, _, tenant = owner.rpartition("\0")
        for accounts, name in ((self.users, user), (self.tenants, tenant)):
            account = _account(accounts, name)
            if account is not None:
                account.retained += change

    # Which of events.LIMITS is reached; -1: none

    def connect_limit(
        self,
        principal: Principal,
        limits: Limits,
        counted: Counted | None,
        is_elsewhere: bool,
    ) -> int:
        """For one connection more.  `counted` is what its client id has, which makes room for it;
        `is_elsewhere`: its session is at another node, and will come."""
        own_user = counted is not None and counted.user == principal.user
        own_tenant = counted is not None and counted.tenant == principal.tenant
        is_connected = counted is not None and counted.connected
        user = self.user(principal.user)
        if user is not None:
            most = limits.max_user_connections
            if most and user.connections - int(own_user and is_connected) >= most:
                return events.USER_CONNECTIONS
            most = limits.max_user_sessions
            if most and user.sessions >= most and not own_user and not is_elsewhere:
                return events.USER_SESSIONS
        tenant = self.tenant(principal.tenant)
        if tenant is not None:
            most = limits.max_tenant_connections
            if most and tenant.connections - int(own_tenant and is_connected) >= most:
                return events.TENANT_CONNECTIONS
            most = limits.max_tenant_sessions
            if most and tenant.sessions >= most and not own_tenant and not is_elsewhere:
                return events.TENANT_SESSIONS
        return -1

    def subscription_limit(self, principal: Principal, limits: Limits) -> int:
        """For one subscription more."""
        most = limits.max_user_subscriptions
        user = self.user(principal.user) if most else None
        if user is not None and user.subscriptions >= most:
            return events.USER_SUBSCRIPTIONS
        most = limits.max_tenant_subscriptions
        tenant = self.tenant(principal.tenant) if most else None
        if tenant is not None and tenant.subscriptions >= most:
            return events.TENANT_SUBSCRIPTIONS
        return -1

    def retained_limit(self, principal: Principal, limits: Limits) -> int:
        """For a retained message at one topic more."""
        most = limits.max_user_retained_messages
        user = self.user(principal.user) if most else None
        if user is not None and user.retained >= most:
            return events.USER_RETAINED
        most = limits.max_tenant_retained_messages
        tenant = self.tenant(principal.tenant) if most else None
        if tenant is not None and tenant.retained >= most:
            return events.TENANT_RETAINED
        return -1

    def sweep(self, now: float) -> None:
        """Forget those who have nothing here any more."""
        for accounts in (self.users, self.tenants):
            for name in [name for name, each in accounts.items() if each.is_over(now)]:
                del accounts[name]


def owner_of(principal: Principal) -> str:
    """Whose a retained message is, as one text; "": nobody's."""
    if not principal.user and not principal.tenant:
        return ""
    return f"{principal.user}\0{principal.tenant}"


def _account(accounts: dict[str, Account], name: str) -> Account | None:
    if not name:
        return None
    found = accounts.get(name)
    if found is None:
        found = accounts[name] = Account()
    return found
