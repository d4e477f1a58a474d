"""What every Store must do, as tests: subclass `StoreContract` and give it a `store` fixture.

    class TestMyStore(StoreContract):
        @pytest.fixture
        async def store(self) -> AsyncIterator[Store]:
            store = MyStore()
            yield store
            await store.aclose()

Each test needs a store that is empty. The tests run under the pytest plugin of anyio.
"""

from __future__ import annotations

from ragstone.testing.store_contract.concurrency import ConcurrencyContract
from ragstone.testing.store_contract.enabling import EnablingContract
from ragstone.testing.store_contract.search import SearchContract
from ragstone.testing.store_contract.writing import WritingContract


class StoreContract(WritingContract, SearchContract, EnablingContract, ConcurrencyContract):
    """All of it: replacing and deleting, searching, disabling, and all at once."""
