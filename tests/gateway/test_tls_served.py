"""TLS of a running router: to clients, to operators and to workers, with certificates that are renewed."""

import asyncio
import shutil
import ssl
import subprocess
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from gateway.certified import Authority
from gateway.listening_engine import BODY, ListeningEngine, gated, until_all_are
from warmroute.errors import ConfigError
from warmroute.gateway.access_options import AccessOptions
from warmroute.gateway.tls import certificates
from warmroute.worker import WorkerStatus


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "ca")


def believing(authority: Authority) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=authority.ca)


def shown(url: str) -> str:
    """The certificate that is shown there, as PEM."""
    host, port = url.removeprefix("https://").split(":")
    return ssl.get_server_certificate((host, int(port)))


async def test_clients_and_operators_are_spoken_to_over_tls(authority: Authority) -> None:
    traffic, admin = authority.signed("traffic"), authority.signed("admin")
    access = AccessOptions(
        tls_cert=traffic.certificate,
        tls_key=traffic.key,
        admin_tls_cert=admin.certificate,
        admin_tls_key=admin.key,
    )
    engine = ListeningEngine()
    async with engine.serve(), gated(engine, access=access) as (gateway, client):
        await until_all_are(gateway)
        assert (gateway.url[:8], gateway.admin_url[:8]) == ("https://", "https://")
        tls = believing(authority)
        async with client.post(gateway.url + "/v1/completions", json=BODY, ssl=tls) as response:
            assert response.status == 200
        async with client.get(gateway.admin_url + "/warmroute/state", ssl=tls) as response:
            assert response.status == 200
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await client.get(gateway.url + "/health")
        with pytest.raises(aiohttp.ClientError):
            await client.get(gateway.url.replace("https", "http") + "/health")


async def test_clients_may_have_to_show_a_certificate(authority: Authority, tmp_path: Path) -> None:
    pair, stranger = authority.signed("traffic"), Authority(tmp_path / "other", "other").signed("stranger")
    access = AccessOptions(tls_cert=pair.certificate, tls_key=pair.key, tls_client_ca=authority.ca)
    async with gated(access=access) as (gateway, client):
        known = authority.signed("client")
        tls = believing(authority)
        tls.load_cert_chain(known.certificate, known.key)
        async with client.get(gateway.url + "/health", ssl=tls) as response:
            assert response.status == 200
        with pytest.raises(aiohttp.ClientError):
            await client.get(gateway.url + "/health", ssl=believing(authority))
        tls = believing(authority)
        tls.load_cert_chain(stranger.certificate, stranger.key)
        with pytest.raises(aiohttp.ClientError):
            await client.get(gateway.url + "/health", ssl=tls)


async def test_a_renewed_certificate_is_shown_from_the_next_connection_on(authority: Authority) -> None:
    pair, renewed = authority.signed("traffic"), authority.signed("renewed")
    access = AccessOptions(tls_cert=pair.certificate, tls_key=pair.key)
    async with gated(access=access) as (gateway, client):
        tls = believing(authority)
        async with client.get(gateway.url + "/health", ssl=tls) as response:
            assert response.status == 200
        before = await asyncio.to_thread(shown, gateway.url)
        shutil.copy(renewed.certificate, pair.certificate)
        broken = await gateway.reloader.reload("a test")
        assert "cannot be used" in str(broken.error), "the key is still the old one"
        assert await asyncio.to_thread(shown, gateway.url) == before
        shutil.copy(renewed.key, pair.key)
        assert (await gateway.reloader.reload("a test")).error is None
        assert await asyncio.to_thread(shown, gateway.url) != before
        async with client.get(gateway.url + "/health", ssl=tls) as response:
            assert response.status == 200, "the connection that was open goes on"


async def test_a_key_that_only_openssl_takes_changes_nothing_at_all(authority: Authority, tmp_path: Path) -> None:
    """Neither the other listener's certificate nor what else has changed is taken over by halves."""
    traffic, admin, renewed = (authority.signed(name) for name in ("traffic", "admin", "renewed"))
    unusual = Authority(tmp_path / "p521", curve="secp521r1").signed("admin")
    access = AccessOptions(
        tls_cert=traffic.certificate, tls_key=traffic.key, admin_tls_cert=admin.certificate, admin_tls_key=admin.key
    )
    async with gated(access=access) as (gateway, _):
        before = await asyncio.to_thread(shown, gateway.url)
        for new, old in ((renewed, traffic), (unusual, admin)):
            shutil.copy(new.certificate, old.certificate)
            shutil.copy(new.key, old.key)
        assert f"{admin.certificate} cannot be used" in str((await gateway.reloader.reload("a test")).error)
        assert await asyncio.to_thread(shown, gateway.url) == before


async def test_workers_are_asked_and_sent_to_over_tls(authority: Authority) -> None:
    pair, ours = authority.signed("worker"), authority.signed("router")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=authority.ca)
    tls.load_cert_chain(pair.certificate, pair.key)
    tls.verify_mode = ssl.CERT_REQUIRED
    engine = ListeningEngine(tls=tls)
    access = AccessOptions(worker_ca=authority.ca, worker_client_cert=ours.certificate, worker_client_key=ours.key)
    async with engine.serve(), gated(engine, access=access) as (gateway, client):
        await until_all_are(gateway)
        async with client.post(gateway.url + "/v1/completions", json=BODY) as response:
            assert response.status == 200
    assert len(engine.headers_at("/v1/completions")) == 1


async def test_a_worker_with_a_certificate_of_a_stranger_is_down(authority: Authority, tmp_path: Path) -> None:
    pair = Authority(tmp_path / "other", "other").signed("worker")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(pair.certificate, pair.key)
    engine = ListeningEngine(tls=tls)
    async with engine.serve(), gated(engine, access=AccessOptions(worker_ca=authority.ca)) as (gateway, _):
        await until_all_are(gateway, WorkerStatus.DOWN)
        (worker,) = gateway.router.table
        assert "certificate" in worker.status_reason.lower()
    assert engine.asked == []


def test_files_that_belong_together_are_asked_for(authority: Authority, tmp_path: Path) -> None:
    pair, other = authority.signed("a"), authority.signed("b")
    locked = str(tmp_path / "locked")
    words = ("openssl", "ec", "-aes256", "-passout", "pass:word", "-in", pair.key, "-out", locked)
    subprocess.run(words, check=True, capture_output=True, timeout=20)
    for options in (
        AccessOptions(tls_cert=pair.certificate, tls_key=locked),
        AccessOptions(tls_cert=pair.certificate),
        AccessOptions(admin_tls_key=pair.key),
        AccessOptions(tls_client_ca=authority.ca),
        AccessOptions(worker_client_cert=pair.certificate),
        AccessOptions(tls_cert=pair.certificate, tls_key=other.key),
        AccessOptions(tls_cert=str(tmp_path / "none"), tls_key=pair.key),
        AccessOptions(tls_cert=pair.certificate, tls_key=pair.key, tls_client_ca=pair.key),
    ):
        with pytest.raises(ConfigError):
            certificates(options)


async def test_events_are_polled_as_the_worker_is_asked(authority: Authority, tmp_path: Path) -> None:
    pair = authority.signed("worker")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(pair.certificate, pair.key)
    keys = tmp_path / "worker-keys"
    keys.write_text("engine-key")
    engine = ListeningEngine(tls=tls, pages={"/kv_cache_events": web.json_response([])})
    access = AccessOptions(worker_ca=authority.ca, worker_api_key_file=str(keys))
    async with engine.serve(), gated(engine, access=access, polled=True) as (gateway, _):
        await until_all_are(gateway)
        async with asyncio.timeout(10):
            while not engine.headers_at("/kv_cache_events"):
                await asyncio.sleep(0.01)
    assert engine.headers_at("/kv_cache_events")[0]["authorization"] == "Bearer engine-key"
