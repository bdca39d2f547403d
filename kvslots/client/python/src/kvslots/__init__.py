"""A client of kvslots, a distributed semaphore: see README.md beside this package."""

from ._borrow import (
    AsyncBorrow as AsyncBorrow,
    Borrow as Borrow,
)
from ._client import (
    AsyncClient as AsyncClient,
    AsyncPool as AsyncPool,
    Client as Client,
    Pool as Pool,
)
from ._errors import (
    AlreadyEnqueuedError as AlreadyEnqueuedError,
    BadRequestError as BadRequestError,
    ClientCanceledError as ClientCanceledError,
    DrainingError as DrainingError,
    ForbiddenError as ForbiddenError,
    InternalError as InternalError,
    KeyReusedError as KeyReusedError,
    KvslotsError as KvslotsError,
    LeaseExpiredError as LeaseExpiredError,
    LeaseLostError as LeaseLostError,
    LimitMismatchError as LimitMismatchError,
    MaxConnectionsError as MaxConnectionsError,
    MaxConnectionsPerIpError as MaxConnectionsPerIpError,
    MaxEventStreamsError as MaxEventStreamsError,
    MaxEventStreamsPerIpError as MaxEventStreamsPerIpError,
    MaxLocksError as MaxLocksError,
    MaxLocksPerIpError as MaxLocksPerIpError,
    MaxLocksPerSessionError as MaxLocksPerSessionError,
    MaxPoolsError as MaxPoolsError,
    MaxSessionsError as MaxSessionsError,
    MaxSessionsPerIpError as MaxSessionsPerIpError,
    MaxTombstonesError as MaxTombstonesError,
    MaxWaitersError as MaxWaitersError,
    MaxWaitersPerIpError as MaxWaitersPerIpError,
    MaxWaitersTotalError as MaxWaitersTotalError,
    MethodNotAllowedError as MethodNotAllowedError,
    NoPoolError as NoPoolError,
    NoPositionError as NoPositionError,
    NoSlotError as NoSlotError,
    NotEnqueuedError as NotEnqueuedError,
    NotFoundError as NotFoundError,
    NotHeldError as NotHeldError,
    NotInLineError as NotInLineError,
    OtherHolderError as OtherHolderError,
    RateLimitedError as RateLimitedError,
    ReadOnlyError as ReadOnlyError,
    SessionGoneError as SessionGoneError,
    StoreFullError as StoreFullError,
    TwoStoresError as TwoStoresError,
    UnauthorizedError as UnauthorizedError,
    UnavailableError as UnavailableError,
    UnreachableError as UnreachableError,
)
from ._events import (
    AsyncEvents as AsyncEvents,
    Event as Event,
    Events as Events,
)
from ._gateways import clock as clock
from ._lease import (
    AsyncLease as AsyncLease,
    AsyncLost as AsyncLost,
    AsyncSlot as AsyncSlot,
    Lease as Lease,
    Lost as Lost,
    Slot as Slot,
)
from ._pools import PoolState as PoolState
from ._reads import (
    Holder as Holder,
    Waiter as Waiter,
)
from ._version import __version__ as __version__
