"""How much one request may ask for: each is refused at the edge, before anything is stored."""

from typing import NamedTuple


class Limits(NamedTuple):
    """Sizes are bytes, texts characters, times milliseconds.

    `payload` is the largest spec, result or datum that a store keeps by itself; larger content is a blob. `inline` is
    from where on data and output go to the blobs if there are some. `wait_ids` bounds one wait. A queue with more tasks
    than `queue_at_once`, or on a server than a few, is not deleted in one step.
    """

    payload: int = 1 << 20
    inline: int = 256 << 10
    tasks_per_submit: int = 1_000_000
    items_per_step: int = 100_000
    claim: int = 10_000
    page: int = 10_000
    wait_ids: int = 1_000_000
    description: int = 10_000
    reason: int = 10_000
    labels: int = 100
    shortest_ttr: int = 1_000
    queue_at_once: int = 10_000
