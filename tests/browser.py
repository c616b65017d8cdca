"""A headless Chromium, driven through a pipe by its debugging protocol: no package is needed for that.

    with Browser(profile_folder) as browser:
        page = browser.open("http://127.0.0.1:8000/index.html", width=375)
        page.evaluate("document.title")
        page.problems                       # what scripts threw, what did not load, what was written as an error
        page.screenshot(path)
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import Any

import optional_peers

SETTINGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--remote-debugging-pipe",
]
TIMEOUT = 60.0


class BrowserError(Exception):
    """The browser did not answer, or refused a command."""


class Browser:
    """One process of Chromium."""

    def __init__(self, profile: Path) -> None:
        """Start it.

        Args:
            profile: a new folder for what the browser keeps.
        """
        program = next(filter(None, map(shutil.which, optional_peers.BROWSERS)))
        commands, self._out = os.pipe()
        self._in, answers = os.pipe()
        redirect = f'exec "$0" "$@" 3<&{commands} 4>&{answers}'  # the protocol wants these two numbers
        self._process = subprocess.Popen(
            ["bash", "-c", redirect, program, *SETTINGS, f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(commands, answers),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(commands)
        os.close(answers)
        self._rest = b""
        self._number = 0
        self._pages: dict[str, Page] = {}

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._out)
        os.close(self._in)
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def open(self, address: str, *, width: int = 1280, height: int = 900, dark: bool = False) -> Page:
        """A page, once it was loaded; `width` and `height` in CSS pixels, `dark` as the system's preference."""
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = self._pages[session] = Page(self, session, target)
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.send(f"{domain}.enable")
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        page.send("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        page.send("Emulation.setEmulatedMedia", features=[scheme])
        page.go(address)
        return page

    def send(self, method: str, session: str | None = None, **parameters: Any) -> Any:
        """The answer to a command."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        os.write(self._out, json.dumps(message | ({"sessionId": session} if session else {})).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == self._number:
                break
        if "error" in answer:
            raise BrowserError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def receive(self) -> dict[str, Any]:
        """The next message; events go to their pages, too."""
        end = time.monotonic() + TIMEOUT
        while b"\0" not in self._rest:
            if not select.select([self._in], [], [], max(0.0, end - time.monotonic()))[0]:
                raise BrowserError(f"no answer within {TIMEOUT} seconds")
            part = os.read(self._in, 1 << 20)
            if not part:
                raise BrowserError("the browser is gone")
            self._rest += part
        first, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(first)
        page = self._pages.get(message.get("sessionId", ""))
        if page is not None and "method" in message:
            page.note(message["method"], message["params"])
        return message


class Page:
    """An open page.

    Attributes:
        problems: what went wrong in it so far, one line each.
    """

    def __init__(self, browser: Browser, session: str, target: str) -> None:
        self._browser, self._session, self._target = browser, session, target
        self._loaded = False
        self.problems: list[str] = []

    def send(self, method: str, **parameters: Any) -> Any:
        """The answer to a command."""
        return self._browser.send(method, self._session, **parameters)

    def go(self, address: str) -> None:
        """Load another address, and wait until that is done."""
        self._loaded = False
        self.send("Page.navigate", url=address)
        while not self._loaded:
            self._browser.receive()

    def note(self, event: str, facts: dict[str, Any]) -> None:
        """An event of this page."""
        if event == "Page.loadEventFired":
            self._loaded = True
        elif event == "Runtime.exceptionThrown":
            details = facts["exceptionDetails"]
            self.problems.append(f"exception: {details.get('exception', {}).get('description', details['text'])}")
        elif event == "Log.entryAdded" and facts["entry"]["level"] == "error":
            self.problems.append(f"{facts['entry']['text']} {facts['entry'].get('url', '')}")
        elif event == "Runtime.consoleAPICalled" and facts["type"] == "error":
            self.problems.append(f"console: {facts['args']}")
        elif event == "Network.requestWillBeSent":
            self._note_request(facts["request"]["url"])

    def _note_request(self, address: str) -> None:
        """Pages ask nobody but the machine that serves them."""
        if not address.startswith(("http://127.0.0.1", "file:", "data:", "blob:", "about:")):
            self.problems.append(f"a request to {address}")

    def evaluate(self, script: str) -> Any:
        """The value of an expression, of a promise once it is kept."""
        answer = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise BrowserError(str(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def point_at(self, selector: str) -> None:
        """Move the mouse to the beginning of the first element that a CSS selector names."""
        x, y = self.evaluate(
            f"(r => [r.left + 60, r.top + r.height / 2])(document.querySelector('{selector}').getBoundingClientRect())"
        )
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def screenshot(self, path: Path, *, whole: bool = False) -> None:
        """Write a PNG of what is visible, or of the whole page."""
        image = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        path.write_bytes(base64.b64decode(image))

    def close(self) -> None:
        """Close it."""
        self._browser.send("Target.closeTarget", targetId=self._target)


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder to this machine; gives the address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
