"""Where state outlives the process: one contract, three stores.

contract    what a store has to do, the ways in which it may fail, and what one that the nodes of a
            cluster share has to do besides
memory      the contract in plain dictionaries: what the others are measured by in tests
sqlite      one file in the data directory, written by a thread of its own; its head names the
            files sqlite_*
redis       a Redis server, by txredisapi; its head names the files redis_*
client_tls  TLS to a server that the broker connects to
make        the store that the configuration asks for
jsonl       the contents of a store as lines of JSON
command     `mhub store check|export|import`
writer      the journal writer (StoreWriter): batches to the store, one at a time, until safe

core.Journal -> Batch -> StoreWriter.commit -> Store.commit -> Storage.committed: replies may leave
"""
