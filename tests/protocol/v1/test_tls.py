"""TLS: a certificate of one's own, for an address that others reach."""

import asyncio
import ssl
import subprocess
from pathlib import Path

import httpx2
import pytest

from ganger.assembly.embedded import open_engine
from ganger.assembly.server import open_server
from ganger.assembly.settings import Settings
from ganger.core.errors import BadInput
from tests.protocol.v1.harness import LISTEN, PATIENCE

MAKE = (
    "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost "
    "-addext subjectAltName=IP:127.0.0.1 -keyout key.pem -out cert.pem"
)


@pytest.fixture
def pair(tmp_path: Path) -> Path:
    made = subprocess.run(MAKE.split(), cwd=tmp_path, capture_output=True, check=False)
    if made.returncode:
        pytest.skip("openssl is not here")
    return tmp_path


def test_the_server_speaks_tls_with_the_given_certificate(pair: Path) -> None:
    async def tell() -> None:
        cert, key = str(pair / "cert.pem"), str(pair / "key.pem")
        settings = Settings(store="memory:", listen=LISTEN, tls_cert=cert, tls_key=key)
        async with open_engine("memory:", upkeep=False) as engine, open_server(settings, engine) as server:
            assert server.url.startswith("https://")
            trust = ssl.create_default_context(cafile=cert)
            async with httpx2.AsyncClient(base_url=server.url, verify=trust, timeout=PATIENCE) as client:
                assert (await client.get("/health/live")).json() == {"live": True}

    asyncio.run(tell())


def test_a_certificate_that_is_none_is_told(tmp_path: Path) -> None:
    async def tell() -> None:
        (tmp_path / "cert.pem").write_text("odd")
        settings = Settings(store="memory:", listen=LISTEN, tls_cert=str(tmp_path / "cert.pem"))
        async with open_engine("memory:", upkeep=False) as engine:
            with pytest.raises(BadInput, match="tls_cert"):
                async with open_server(settings, engine):
                    pass

    asyncio.run(tell())
