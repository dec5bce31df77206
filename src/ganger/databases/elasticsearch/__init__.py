"""Elasticsearch and OpenSearch by the few calls that versioned documents need; the two answer them alike."""

from ganger.databases.elasticsearch.address import Address, read_address
from ganger.databases.elasticsearch.index import Hit, Index, Refused

__all__ = ["Address", "Hit", "Index", "Refused", "read_address"]
