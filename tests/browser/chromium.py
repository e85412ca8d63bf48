"""Chromium without a window, driven through its own pipe: nothing besides the browser is needed.

``chromium --remote-debugging-pipe`` reads commands of the DevTools protocol from file descriptor 3
and answers on 4, each message a JSON object with a zero byte behind it.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--allow-file-access-from-files",
    "--hide-scrollbars",
)


def program() -> str | None:
    """Where Chromium is, or None."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """One tab of a Chromium of its own: ``open`` a page, ``run`` JavaScript in it, read ``errors``.

    Errors are what the console calls errors: exceptions that nothing caught, files that are not
    there, and addresses that a page asked for outside of its own files.
    """

    def __init__(self, profile: Path) -> None:
        path = program()
        assert path is not None
        (commands_out, self._commands), (self._answers, answers_in) = os.pipe(), os.pipe()
        shell = f'exec "$0" "$@" 3<&{commands_out} 4>&{answers_in}'
        arguments = [
            *OPTIONS,
            f"--user-data-dir={profile}",
            "--remote-debugging-pipe",
            "about:blank",
        ]
        self._process = subprocess.Popen(
            ["bash", "-c", shell, path, *arguments],
            pass_fds=(commands_out, answers_in),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(commands_out)
        os.close(answers_in)
        self._buffer = b""
        self._count = 0
        self._session: str | None = None
        self._events: list[dict[str, Any]] = []
        self.errors: list[str] = []
        targets = self._send("Target.getTargets")["targetInfos"]
        target = next(t["targetId"] for t in targets if t["type"] == "page")
        attached = self._send("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._send(f"{domain}.enable")
        # Every page is opened by somebody who has chosen nothing yet.
        self._send("Page.addScriptToEvaluateOnNewDocument", source="localStorage.clear()")

    def open(
        self, page: Path, *, width: int = 1300, height: int = 900, scheme: str = "light"
    ) -> None:
        """Load a file at a width in pixels, in the colours that a reader prefers."""
        self._send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self._send("Emulation.setEmulatedMedia", features=features)
        self.errors.clear()
        self._events.clear()
        self._send("Page.navigate", url=page.as_uri())
        self._wait("Page.loadEventFired")
        # One more turn of the page's own loop: what it does after loading is done.
        self.run("new Promise(done => requestAnimationFrame(() => setTimeout(done)))")

    def run(self, script: str) -> Any:
        """The value of a JavaScript expression; a promise is waited for."""
        answer = self._send(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def picture(self, path: Path, *, whole: bool = False) -> None:
        """A PNG of what is seen, or of the whole page."""
        answer = self._send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(answer["data"]))

    def close(self) -> None:
        """End the browser, and wait until it has."""
        self._session = None
        self._send("Browser.close")
        os.close(self._commands)
        self._process.wait(timeout=30)
        os.close(self._answers)

    def _send(self, method: str, **params: Any) -> dict[str, Any]:
        self._count += 1
        message: dict[str, Any] = {"id": self._count, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._count:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]

    def _wait(self, event: str) -> None:
        while all(seen["method"] != event for seen in self._events):
            self._read()

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            piece = os.read(self._answers, 1 << 16)
            assert piece, "Chromium has ended"
            self._buffer += piece
        line, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        if "method" in message:
            self._events.append(message)
            self.errors += _complaints(message["method"], message["params"])
        return message


def _complaints(method: str, params: dict[str, Any]) -> Sequence[str]:
    if method == "Runtime.exceptionThrown":
        return [json.dumps(params["exceptionDetails"])]
    if method == "Log.entryAdded" and params["entry"]["level"] == "error":
        return [f"{params['entry']['text']} {params['entry'].get('url', '')}"]
    if method == "Runtime.consoleAPICalled" and params["type"] == "error":
        return [json.dumps(params["args"])]
    if method == "Network.requestWillBeSent":
        address = params["request"]["url"]
        return (
            []
            if address.startswith(("file:", "data:", "blob:", "about:"))
            else [f"asked for {address}"]
        )
    return []
