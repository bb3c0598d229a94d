// Parts that several forms of the playground are built of.

import { el } from "./dom.js";

/** A button that submits nothing. */
export const button = (text, onclick, attributes = {}) => el("button", { type: "button", onclick, ...attributes }, text);

/** A folded part with a summary. */
export const folded = (summary, ...children) =>
  el("details", { class: "play-folded" }, el("summary", {}, summary), ...children);

/** A table; `rows` are lists of cells, text or elements, and the first cell of each is its header. */
export function table(caption, heads, rows) {
  const cells = (row) => row.map((cell, i) => (i ? el("td", {}, cell) : el("th", { scope: "row" }, cell)));
  return el(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    el(
      "table",
      { class: "play-table" },
      el("caption", {}, caption),
      el("thead", {}, el("tr", {}, ...heads.map((head) => el("th", { scope: "col" }, head)))),
      el("tbody", {}, ...rows.map((row) => el("tr", {}, ...cells(row)))),
    ),
  );
}

/** A text cut to a length that fits a heading. */
export const short = (text, most = 40) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

/** Runs `update` at most once a frame, however often it is asked for. */
export function oncePerFrame(update) {
  let waits = false;
  return () => {
    if (waits) return;
    waits = true;
    requestAnimationFrame(() => {
      waits = false;
      update();
    });
  };
}
