"""The web server of a page: viser on this machine, for browsers on this machine."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
from collections.abc import Callable, Coroutine, Sequence
from importlib import resources
from typing import TYPE_CHECKING, Any

from sitl_bridge.base.errors import UserError
from sitl_bridge.base.extras import missing_package
from sitl_bridge.base.system.port_holder import taken_by

if TYPE_CHECKING:
    from viser import GuiEvent, ViserServer

HOST = "127.0.0.1"
DEFAULT_PORT = 8080
TITLE = "sitl-bridge"
STICKS = "/sticks"
"""Path of the WebSocket of sticks.js."""


def require_viser() -> None:
    """Check that viser is installed.

    Raises:
        UserError: with the command that installs it.
    """
    try:
        import viser  # noqa: F401
    except ImportError as error:
        raise missing_package("viser", "pages with a 3-D view", "view") from error


def require_foxglove() -> None:
    """Check that Foxglove's SDK is installed.

    Raises:
        UserError: with the command that installs it.
    """
    try:
        import foxglove.websocket  # noqa: F401
    except ImportError as error:
        raise missing_package("foxglove-sdk", "streams for Foxglove", "view") from error


def require_free_port(port: int, host: str = HOST, what: str = "the page") -> None:
    """Check that a TCP port on this machine is free.

    Args:
        what: listens there.

    Raises:
        UserError: with the program that holds it, or if the address is not one of this machine.
    """
    try:
        holder = taken_by(port, host=host)
    except OSError as error:
        raise UserError(f"{what} cannot listen on {host}: {error.strerror}") from error
    if holder:
        raise UserError(f"port {port} of {what} is in use by {holder}; choose another port")


def page_url(port: int) -> str:
    """Address of a page for a browser."""
    return f"http://{HOST}:{port}"


def open_page(
    port: int, title: str, take_sticks: Callable[[Sequence[float]], None] | None = None
) -> ViserServer:
    """Serve an empty page.

    Only pages of this server may connect: browsers let any page of the internet open a WebSocket to this
    machine, and such a page could command the simulation.

    Args:
        title: of the browser's tab.
        take_sticks: takes forward, right, up and clockwise, each -1 to 1, from sticks.js; None: no sticks.

    Raises:
        UserError: if viser is not installed, or the port is taken.
    """
    require_viser()
    import viser
    import websockets.asyncio.server

    require_free_port(port)
    origins: list[Any] = [page_url(port), f"http://localhost:{port}"]
    serve = websockets.asyncio.server.serve

    def serve_page(handler: Callable[[Any], Any], *arguments: Any, **options: Any) -> Any:
        """Serve viser's page to the origins that may connect, and the sticks beside it."""

        async def handle(connection: Any) -> None:
            if take_sticks is None or connection.request.path != STICKS:
                await handler(connection)
                return
            async for message in connection:
                take_sticks(json.loads(message))

        return serve(handle, *arguments, origins=origins, **options)

    # viser has no arguments for these two.
    websockets.asyncio.server.serve = serve_page  # type: ignore[assignment,misc]
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # viser prints its address in a frame
            server = viser.ViserServer(host=HOST, port=port, label=TITLE, verbose=False)
    finally:
        websockets.asyncio.server.serve = serve  # type: ignore[misc]
    if server.get_port() != port:
        server.stop()
        raise UserError(f"port {port} was taken by another program; choose another port")
    # A page may request a tunnel to the internet, which this server never opens.
    server.request_share_url = lambda **_options: None
    server.gui.configure_theme(control_width="medium", show_logo=False, show_share_button=False)
    server.gui.main_panel.dock_right()
    run_script(server, f"document.title = {json.dumps(title)};")
    if take_sticks is not None:
        run_script(server, resources.files("sitl_bridge.live.view").joinpath("sticks.js").read_text("ascii"))
    return server


def in_server_soon(server: ViserServer, act: Callable[[], object]) -> None:
    """Call a function in the thread of ``in_server`` soon, unless the page is closed; from any thread."""
    with contextlib.suppress(RuntimeError):  # the loop is closed
        server.get_event_loop().call_soon_threadsafe(act)


def in_server(server: ViserServer, act: Callable[[], None]) -> None:
    """Call a function in the thread of the page's server, and wait for it; from any other thread.

    viser wakes its senders by asyncio events, which are safe in this thread only: a message from another one
    may fail by ``RuntimeError: deque mutated during iteration``.
    """

    async def call() -> None:
        act()

    asyncio.run_coroutine_threadsafe(call(), server.get_event_loop()).result()


def on_page(act: Callable[[GuiEvent], None]) -> Callable[[GuiEvent], Coroutine[None, None, None]]:
    """A function for a button or field to call in the thread of ``in_server``; viser has others for them."""

    async def call(event: GuiEvent) -> None:
        act(event)

    return call


def run_script(server: ViserServer, source: str) -> None:
    """Run JavaScript on all pages, also those that are opened later, after what was run before.

    viser has no function for it: this is the message by which it loads plotly.
    """
    from viser import _messages

    server._websock_server.queue_message(_messages.RunJavascriptMessage(source))
