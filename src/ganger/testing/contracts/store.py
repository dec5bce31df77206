"""The conformance suite of `ganger.engine.store`, whole: a backend inherits it and says how it is opened.

    class TestMyStore(StoreConformance):
        @asynccontextmanager
        async def open_store(self, clock, entropy):
            store = await MyStore.open(self.folder / "tasks", clock, entropy)
            try:
                yield store
            finally:
                await store.close()

`pytest.register_assert_rewrite("ganger.testing.contracts")` in a conftest lets failures explain themselves.
"""

from ganger.testing.contracts.store_claim import ClaimContract
from ganger.testing.contracts.store_durable import DurableContract
from ganger.testing.contracts.store_edits import EditsContract
from ganger.testing.contracts.store_graph import GraphContract
from ganger.testing.contracts.store_groups import GroupsContract
from ganger.testing.contracts.store_limits import LimitsContract
from ganger.testing.contracts.store_live import LiveContract
from ganger.testing.contracts.store_moves import MovesContract
from ganger.testing.contracts.store_nodes import NodesContract
from ganger.testing.contracts.store_notes import NotesContract
from ganger.testing.contracts.store_pasts import PastsContract
from ganger.testing.contracts.store_queues import QueuesContract
from ganger.testing.contracts.store_reads import AuditContract, ListenContract, ReadsContract
from ganger.testing.contracts.store_settle import SettleContract
from ganger.testing.contracts.store_submit import SubmitContract
from ganger.testing.contracts.store_upkeep import UpkeepContract


class StoreConformance(
    SubmitContract,
    PastsContract,
    ClaimContract,
    LimitsContract,
    MovesContract,
    SettleContract,
    GraphContract,
    GroupsContract,
    NotesContract,
    LiveContract,
    EditsContract,
    QueuesContract,
    NodesContract,
    UpkeepContract,
    ReadsContract,
    AuditContract,
    ListenContract,
    DurableContract,
):
    """Every test that a store must pass."""
