"""A real JupyterLab or Notebook server, with nothing of the person who runs the tests in it.

    with LabServer(tmp_path) as server:
        notebooks.write(server.notebooks / "n.ipynb", "1 + 1")
        page.goto(server.url + "/lab/tree/n.ipynb?reset")

    with LabServer(tmp_path, app="notebook") as server:
        page.goto(server.url + "/notebooks/n.ipynb")

Configuration, data, runtime, settings, workspaces and IPython have their own folders
below ``tmp_path``. News and update checks are off, so is windowing. Kernels refuse to
reach anything but loopback.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from typing_extensions import Self

__all__ = ["LabServer"]

_START_S = 60.0
_STOP_S = 10.0

_SETTINGS = {
    "@jupyterlab/apputils-extension:notification": {
        "checkForUpdates": False,
        "doNotDisturbMode": True,
        "fetchNews": "false",
    },
    "@jupyterlab/notebook-extension:tracker": {
        "windowingMode": "none",
        "showEditorForReadOnlyMarkdown": False,
    },
    "@jupyterlab/docmanager-extension:plugin": {"autosave": False},
    "@jupyterlab/apputils-extension:themes": {"theme": "JupyterLab Light"},
}

_NO_NETWORK = """
import ipaddress, sys

def _refuse(event, arguments):
    address = arguments[1] if event in ("socket.connect", "socket.sendto") else None
    if isinstance(address, tuple) and not ipaddress.ip_address(address[0]).is_loopback:
        raise PermissionError(f"a test's kernel tried to reach {address}")

sys.addaudithook(_refuse)
"""


class LabServer:
    """JupyterLab as a process of its own; a context manager.

    Args:
        directory: Where its folders are made.
        app: ``jupyterlab``, or ``notebook`` for Notebook 7.
    """

    def __init__(self, directory: Path, app: str = "jupyterlab") -> None:
        """Prepare the folders; nothing is started yet."""
        self.directory = directory
        self.app = app
        self.notebooks = self._folder("notebooks")
        self.port = _free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log: list[str] = []
        self._ready = threading.Event()
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None

    def __enter__(self) -> Self:
        """Start the server and wait until it listens."""
        self._write_settings()
        self._process = subprocess.Popen(
            self._command(),
            cwd=self.notebooks,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, name="JupyterLab log", daemon=True)
        self._reader.start()
        if not self._ready.wait(_START_S) or self._process.poll() is not None:
            self.stop()
            raise RuntimeError(f"{self.app} did not start:\n{''.join(self.log)}")
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the server and its kernels."""
        self.stop()

    def stop(self) -> None:
        """Stop the server and everything that it started."""
        process = self._process
        if process is None:
            return
        process.terminate()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # the group that start_new_session made
            process.wait(_STOP_S)
        if self._reader is not None:
            self._reader.join(_STOP_S)

    def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.log.append(line)
            if "is running at" in line:
                self._ready.set()
        self._ready.set()  # it ended: nobody need wait any longer

    def _folder(self, name: str) -> Path:
        folder = self.directory / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _write_settings(self) -> None:
        overrides = self._folder("config/labconfig") / "default_setting_overrides.json"
        overrides.write_text(json.dumps(_SETTINGS), encoding="utf-8")
        startup = self._folder("ipython/profile_default/startup") / "00-no-network.py"
        startup.write_text(_NO_NETWORK, encoding="utf-8")

    def _command(self) -> list[str]:
        options = {
            "ip": "127.0.0.1",
            "port": self.port,
            "ServerApp.port_retries": 0,
            "ServerApp.root_dir": self.notebooks,
            "ServerApp.disable_check_xsrf": True,
            "IdentityProvider.token": "",
            "LabApp.extension_manager": "readonly",
        }
        if self.app != "jupyterlab":
            del options["LabApp.extension_manager"]
        flags = ["--no-browser", "--allow-root", "--expose-app-in-browser"]
        arguments = [f"--{name}={value}" for name, value in options.items()]
        return [sys.executable, "-m", self.app, *flags, *arguments]

    def _environment(self) -> dict[str, str]:
        folders = {
            "IPYTHONDIR": "ipython",
            "JUPYTER_CONFIG_DIR": "config",
            "JUPYTER_DATA_DIR": "data",
            "JUPYTER_RUNTIME_DIR": "runtime",
            "JUPYTERLAB_SETTINGS_DIR": "settings",
            "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
        }
        own: dict[str, Any] = {key: str(self._folder(name)) for key, name in folders.items()}
        path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
        return os.environ | own | {"PATH": path, "JUPYTER_PREFER_ENV_PATH": "1"}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
