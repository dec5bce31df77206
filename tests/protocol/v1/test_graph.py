"""Query the backend for the hierarchy: nodes with their states, and the edges between them."""

from typing import Any

from tests.protocol.v1.harness import Site, command, story


async def read_all(site: Site, path: str) -> tuple[list[str], list[tuple[str, str, str]]]:
    """The nodes and the edges of all pages."""
    nodes: list[str] = []
    edges: list[tuple[str, str, str]] = []
    page: Any = await site.get(path)
    while True:
        nodes += [node["id"] for node in page["nodes"]]
        edges += [(edge["parent"], edge["child"], edge["on"]) for edge in page["edges"]]
        if "pagination" not in page:
            return nodes, edges
        page = await site.get(f"{path}&start={page['pagination']['next']}&pid={page['pagination']['pid']}")


@story
async def test_the_whole_hierarchy_is_read_in_pages(site: Site) -> None:
    a, b, c, d = await site.add(
        command(ref="a"), command(ref="b"), command(parents=["@a", "@b"], parent=None), command(parent="@b")
    )

    for limit in (1, 2, 3, 100):
        nodes, edges = await read_all(site, f"/v1/graph?limit={limit}")
        assert nodes == [a, b, c, d]
        assert edges == [(a, c, "success"), (b, c, "success"), (b, d, "success")]
    node = (await site.get("/v1/graph"))["nodes"][0]
    assert (node["state"], node["type"], node["description"]) == ("incipient", "command", "true")


@story
async def test_the_hierarchy_below_a_root_is_read_in_pages(site: Site) -> None:
    root, _, child, grandchild = await site.add(
        command(ref="a"), command(), command(ref="c", parent="@a"), command(parent="@c")
    )
    await site.finish(root)

    for limit in (1, 2, 100):
        nodes, edges = await read_all(site, f"/v1/graph?root={root}&limit={limit}")
        assert nodes == [root, child, grandchild]
        assert edges == [(root, child, "success"), (child, grandchild, "success")]


@story
async def test_pages_of_another_graph_are_gone(site: Site) -> None:
    root, _ = await site.add(command(ref="a"), command(parent="@a"))
    told = (await site.get("/v1/graph?limit=1"))["pagination"]

    await site.refuse(410, "GET", f"/v1/graph?root={root}&start={told['next']}&pid={told['pid']}")
    await site.refuse(404, "GET", "/v1/graph?root=999")
    await site.refuse(400, "GET", "/v1/graph?root=odd")
