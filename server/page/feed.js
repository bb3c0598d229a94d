// The feed of the server's numbers: one stream while the page is seen, opened again when it ends.

import { events, isAsking } from "./api.js";

const SILENCE_MS = 6000;
/** A stream without an event for this long is taken for lost. */
const PAUSES_MS = [500, 1000, 2000, 4000, 8000];

/**
 * `onSnapshot(snapshot)` for every event; `onState(state, text)` with `live`, `connecting`, `lost` and why, or
 * `locked` where no key was given: then the stream is opened again by `start` alone.
 */
export class Feed {
  constructor(onSnapshot, onState) {
    this.onSnapshot = onSnapshot;
    this.onState = onState;
    this.model = null;
    this.run = null;
    document.addEventListener("visibilitychange", () => (document.hidden ? this.stop() : this.start()));
    window.addEventListener("online", () => this.start());
  }

  /** Open the stream for a model; null is the server's default one. */
  start(model = this.model) {
    this.model = model;
    this.stop();
    if (document.hidden) return;
    this.run = new AbortController();
    this.follow(this.run.signal);
  }

  stop() {
    this.run?.abort();
    this.run = null;
  }

  async follow(signal) {
    let failures = 0;
    this.onState("connecting", "Connecting");
    while (!signal.aborted) {
      let why = "The server ended the stream.";
      try {
        await this.read(signal, () => (failures = 0));
      } catch (error) {
        if (error.status === 401) return this.onState("locked", "The server needs a key: press Key.");
        why = words(error);
      }
      if (signal.aborted) return;
      const pause = PAUSES_MS[Math.min(failures++, PAUSES_MS.length - 1)];
      this.onState("lost", why);
      await sleep(pause, signal);
    }
  }

  async read(signal, onEvent) {
    const silence = new AbortController();
    const path = "v1/status?stream=1" + (this.model ? `&model=${encodeURIComponent(this.model)}` : "");
    let timer;
    const listen = () => {
      clearTimeout(timer);
      timer = setTimeout(() => (isAsking() ? listen() : silence.abort(new Error("The server is silent."))), SILENCE_MS);
    };
    listen();
    try {
      for await (const data of events(path, { signal: AbortSignal.any([signal, silence.signal]) })) {
        listen();
        onEvent();
        this.onState("live", "Live");
        this.onSnapshot(JSON.parse(data));
      }
    } finally {
      clearTimeout(timer);
    }
  }
}

function words(error) {
  if (error.status) return `The server answered ${error.status}: ${error.message}`;
  return error instanceof TypeError ? "The server cannot be reached." : error.message;
}

function sleep(milliseconds, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
}
