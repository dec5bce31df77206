"""A node of somebody else: it knows the shapes of the documents and Elasticsearch, and nothing of Ganger.

python elastic_node.py count URL LOCK FILE ROUNDS        adds 1 to the number in a file, so often, each time under the
lock python elastic_node.py work URL CLUSTER TOKEN WORKERS    joins, works on partitions until all are done, prints
their tasks

A lock is free if its document is absent, its expire is 0, or its expire has passed by this machine's clock. A write
names the version that was read; whoever is refused looks again.
"""

import base64
import json
import random
import sys
import time
import uuid
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen

TTL = 5_000


def ask(method: str, url: str, body: object = None) -> dict[str, Any]:
    data = None if body is None else json.dumps(body).encode()
    try:
        with urlopen(Request(url, data, {"content-type": "application/json"}, method=method), timeout=30) as reply:
            return dict(json.load(reply))
    except HTTPError as error:
        with error:
            return dict(json.load(error))


def read(url: str, name: str) -> tuple[dict[str, Any], str]:
    """The document, and the condition under which it may be replaced."""
    found = ask("GET", f"{url}/_doc/{quote(name, safe='')}")
    if not found.get("found"):
        return {}, "op_type=create"
    return found["_source"], f"if_seq_no={found['_seq_no']}&if_primary_term={found['_primary_term']}"


def write(url: str, name: str, document: dict[str, Any], condition: str) -> bool:
    """False: somebody else was quicker."""
    return "error" not in ask("PUT", f"{url}/_doc/{quote(name, safe='')}?{condition}", document)


def now() -> int:
    return round(time.time() * 1_000)


def take(url: str, name: str, token: str) -> dict[str, Any] | None:
    document, condition = read(url, name)
    if document.get("expire", 0) > now():
        return None
    taken = {**document, "holder": token, "expire": now() + TTL}
    return taken if write(url, name, taken, condition) else None


def give_back(url: str, name: str, document: dict[str, Any]) -> None:
    _, condition = read(url, name)
    assert write(url, name, {**document, "expire": 0}, condition)


def count(url: str, lock: str, file: str, rounds: str) -> None:
    token, left = str(uuid.uuid4()), int(rounds)
    while left:
        taken = take(url, lock, token)
        if taken is None:
            time.sleep(random.random() * 0.02)
            continue
        Path(file).write_text(str(int(Path(file).read_text()) + 1))
        give_back(url, lock, taken)
        left -= 1


def join(url: str, cluster: str, token: str, workers: int) -> None:
    while True:
        document, condition = read(url, f"members/{cluster}")
        nodes = [node for node in document.get("nodes", []) if node["token"] != token]
        if write(url, f"members/{cluster}", {"nodes": [*nodes, {"token": token, "workers": workers}]}, condition):
            return


def list_partitions(url: str, cluster: str) -> dict[str, dict[str, Any]]:
    """Every partition, in one request, as far as the server has refreshed."""
    found = ask("POST", f"{url}/_search", {"size": 1_000, "_source": ["expire", "state"]})
    hits = {hit["_id"]: hit["_source"] for hit in found["hits"]["hits"]}
    return {name: seen for name, seen in hits.items() if name.startswith(f"partition/{cluster}/")}


def work(url: str, cluster: str, token: str, workers: str) -> None:
    join(url, cluster, token, int(workers))
    print("joined", flush=True)
    done: set[str] = set()
    while True:
        seen = list_partitions(url, cluster)
        if seen and all(one["state"] == "done" for one in seen.values()):
            return
        for name in seen:
            document, condition = read(url, name)
            if name in done or document.get("state") != "outstanding" or document["expire"] > now():
                continue
            taken = {**document, "holder": token, "expire": now() + TTL}
            if write(url, name, taken, condition):
                print(base64.b64decode(taken["task"]).decode(), flush=True)
                _, condition = read(url, name)
                assert write(url, name, {**taken, "expire": 0, "state": "done"}, condition)
                done.add(name)


if __name__ == "__main__":
    {"count": count, "work": work}[sys.argv[1]](*sys.argv[2:])
