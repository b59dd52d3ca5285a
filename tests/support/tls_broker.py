"""A broker with TLS and a password, in a process of its own: mosquitto where it is installed, else amqtt.

Run as a program it is the amqtt: ``tls_broker.py PORT CERTIFICATE KEY DIGEST``.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

USER, PASSWORD = "sitl", "p@ss"


class TlsBroker:
    """The broker; it listens some time after ``start``.

    Args:
        port: on this machine.
        directory: for its certificate and files.
        expired: whether its certificate is out of date.
    """

    def __init__(self, port: int, directory: Path, *, expired: bool = False) -> None:
        self.port = port
        self.certificate, self._key = directory / "certificate.pem", directory / "key.pem"
        self._directory = directory
        self._make_certificate(expired)
        self.process: subprocess.Popen[bytes] | None = None

    def _make_certificate(self, expired: bool) -> None:
        openssl = shutil.which("openssl")
        if openssl is None:
            pytest.skip("needs openssl (Debian package openssl)")
        make = [
            openssl,
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-days",
            "2",
            "-subj",
            "/CN=localhost",
        ]
        make += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(self._key)]
        subprocess.run([*make, "-out", str(self.certificate)], check=True, capture_output=True)
        if expired:
            sign = [openssl, "x509", "-in", str(self.certificate), "-signkey", str(self._key), "-days", "-1"]
            subprocess.run([*sign, "-out", str(self.certificate)], check=True, capture_output=True)

    def start(self) -> None:
        with (self._directory / "broker.log").open("a") as log:
            self.process = subprocess.Popen(self._command(), stdout=log, stderr=log)

    def _command(self) -> list[str]:
        places = f"{os.environ['PATH']}:/usr/sbin"
        program, passwords = (shutil.which(name, path=places) for name in ("mosquitto", "mosquitto_passwd"))
        if program is None or passwords is None:
            digest = hashlib.sha256(PASSWORD.encode()).hexdigest()
            files = [str(self.certificate), str(self._key)]
            return [sys.executable, __file__, str(self.port), *files, digest]
        known = self._directory / "passwords"
        subprocess.run([passwords, "-b", "-c", known, USER, PASSWORD], check=True)
        settings = self._directory / "mosquitto.conf"
        user = "user root\n" if os.geteuid() == 0 else ""
        settings.write_text(
            f"listener {self.port} 127.0.0.1\ncertfile {self.certificate}\nkeyfile {self._key}\n"
            f"allow_anonymous false\npassword_file {known}\n{user}"
        )
        return [program, "-c", str(settings)]

    def listens(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, (self._directory / "broker.log").read_text()
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()


async def _serve(port: int, certificate: str, key: str, digest: str) -> None:
    from amqtt.broker import Broker

    listener = {
        "type": "tcp",
        "bind": f"127.0.0.1:{port}",
        "ssl": True,
        "certfile": certificate,
        "keyfile": key,
    }
    plugins = {"sitl_bridge.live.bus.broker_login.Login": {"digest": digest}}
    await Broker({"listeners": {"default": listener}, "plugins": plugins}).start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1]), *sys.argv[2:5]))
