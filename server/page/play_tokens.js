// Tokens with their log-probabilities: a colour for each, and the alternatives of the one pointed to.

import { el } from "./dom.js";

/** Least probability → class of a token's colour. */
const SHADES = [
  [0.9, "play-p5"],
  [0.6, "play-p4"],
  [0.3, "play-p3"],
  [0.1, "play-p2"],
  [0, "play-p1"],
];

const probability = (logprob) => (logprob === null ? "first of the prompt" : percent(Math.exp(logprob)));
const percent = (p) => (p < 1e-5 ? "< 0.001 %" : `${(100 * p).toFixed(p > 0.0995 ? 1 : 3)} %`);
const visible = (text) => JSON.stringify(text);

/** The text of each token; a character of several tokens stands at its last one. */
function texts(tokens) {
  const decoder = new TextDecoder();
  return tokens.map((token) =>
    token.bytes ? decoder.decode(new Uint8Array(token.bytes), { stream: true }) : token.text,
  );
}

/** The tokens that `content` consists of, where it begins and ends at borders of tokens; else all. */
function within(content, tokens) {
  const parts = texts(tokens).map((text, i) => ({ text, token: tokens[i] }));
  const from = parts.map(({ text }) => text).join("").lastIndexOf(content);
  const begins = parts.map(() => 0);
  for (let i = 1; i < parts.length; i++) begins[i] = begins[i - 1] + parts[i - 1].text.length;
  const first = begins.indexOf(from);
  const last = parts.findLastIndex(({ text }, i) => begins[i] + text.length === from + content.length && text);
  return content && first >= 0 && last >= first ? parts.slice(first, last + 1) : parts;
}

function alternatives({ text, token }) {
  const rows = token.top.map((each) =>
    el("li", { class: each.text === token.text ? "play-chosen" : undefined },
      el("code", {}, visible(each.text)), ` ${percent(Math.exp(each.logprob))}`),
  );
  const place = token.logprob === null ? "" : `, log-probability ${token.logprob.toFixed(3)}`;
  return [
    el("p", {}, el("code", {}, visible(text || token.text)), ` ${probability(token.logprob)}${place}`),
    el("ol", {}, ...rows),
  ];
}

/** A reply as tokens; the pointer and the arrow keys choose the one whose alternatives are shown. */
export function tokensView(content, tokens) {
  const parts = within(content, tokens);
  const spans = parts.map(({ text, token }) => el("span", { class: shade(token) }, text));
  const detail = el("div", { class: "play-alternatives", "aria-live": "polite" }, "Point to a token, or use the arrow keys.");
  let chosen = -1;
  const choose = (i) => {
    if (i < 0 || i >= spans.length || i === chosen) return;
    spans[chosen]?.classList.remove("play-pointed");
    spans[i].classList.add("play-pointed");
    detail.replaceChildren(...alternatives(parts[i]));
    chosen = i;
  };
  const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 1, ArrowUp: -1 };
  const onkeydown = (event) => {
    if (!(event.key in steps)) return;
    event.preventDefault();
    choose(Math.max(0, chosen + steps[event.key]));
  };
  const label = "Tokens with log-probabilities; arrow keys choose one";
  const onpointerover = ({ target }) => choose(spans.indexOf(target));
  return el(
    "div",
    {},
    el("div", { class: "play-text play-tokens", role: "group", tabindex: "0", "aria-label": label, onkeydown, onpointerover, onclick: onpointerover }, ...spans),
    detail,
  );
}

function shade({ logprob }) {
  const p = logprob === null ? 1 : Math.exp(logprob);
  return `play-token ${SHADES.find(([least]) => p >= least)?.[1] ?? "play-p1"}`;
}
