// Sends the sticks of the keyboard or a gamepad while a user flies by hand: forward, right, up and clockwise.
window.flyByHand = (on) => {
  window.endFlight?.();
  if (!on) return;
  // Stick and direction of a key; a gamepad has the sticks of mode 2.
  const keys = {
    ArrowUp: [0, 1], ArrowDown: [0, -1], ArrowRight: [1, 1], ArrowLeft: [1, -1],
    KeyW: [2, 1], KeyS: [2, -1], KeyD: [3, 1], KeyA: [3, -1],
  };
  const slow = 0.5, dead = 0.08; // of the keys without Shift; of a gamepad's sticks
  const link = new WebSocket(location.origin.replace("http", "ws") + "/sticks");
  const held = new Map();
  let moved = false;
  const send = () => {
    const sticks = [0, 0, 0, 0];
    for (const [stick, value] of held.values()) sticks[stick] += value;
    const pad = [...navigator.getGamepads()].find((one) => one?.mapping === "standard");
    if (pad && pad.axes.some((value) => Math.abs(value) > dead)) {
      const [clockwise, down, right, back] = pad.axes;
      [-back, right, -down, clockwise].forEach((value, k) => (sticks[k] = Math.abs(value) > dead ? value : 0));
    }
    const moves = sticks.some((value) => value !== 0);
    if (link.readyState === WebSocket.OPEN && (moves || moved)) {
      link.send(JSON.stringify(sticks.map((value) => Math.max(-1, Math.min(1, value)))));
      moved = moves;
    }
  };
  const end = new AbortController();
  const listen = (kind, act) => addEventListener(kind, act, { capture: true, signal: end.signal });
  const press = (event) => {
    held.delete(event.code);
    const writes = event.target.matches?.("textarea, input:not([type=checkbox])");
    if (!(event.code in keys) || writes || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopImmediatePropagation(); // these keys move viser's camera, too
    const [stick, direction] = keys[event.code];
    if (event.type === "keydown") held.set(event.code, [stick, event.shiftKey ? direction : slow * direction]);
    if (!event.repeat) send();
  };
  listen("keydown", press);
  listen("keyup", press);
  listen("blur", () => held.clear());
  const timer = setInterval(send, 100);
  window.endFlight = () => {
    clearInterval(timer);
    end.abort();
    link.close();
  };
};
