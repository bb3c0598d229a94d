// Elements of the page. Text goes in as text: nothing here reads a string as markup.

const SVG = "http://www.w3.org/2000/svg";

/** An HTML element: attributes (`class`, `title`, `onclick: function` …), then children (elements, texts). */
export function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** The same for an element of a drawing. */
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child != null && child !== false));
  return element;
}

/** Write a text where it differs: what does not change is not drawn again. */
export function setText(element, text) {
  const value = text == null ? "" : String(text);
  if (element.textContent !== value) element.textContent = value;
}

export function setAttribute(element, name, value) {
  if (value == null || value === false) element.removeAttribute(name);
  else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
}

/**
 * Makes the children of `parent` those of `items`, in order, and keeps the elements of items that stay.
 * `make(item)` gives an element, `update(element, item)` writes what changed.
 */
export function reconcile(parent, items, keyOf, make, update) {
  const known = (parent.known ??= new Map());
  const seen = new Set();
  let place = parent.firstElementChild;
  for (const item of items) {
    const key = keyOf(item);
    if (seen.has(key)) continue;
    seen.add(key);
    let element = known.get(key);
    if (!element) known.set(key, (element = make(item)));
    update(element, item);
    if (element === place) place = place.nextElementSibling;
    else parent.insertBefore(element, place);
  }
  for (const [key, element] of known) {
    if (!seen.has(key)) {
      element.remove();
      known.delete(key);
    }
  }
}

/**
 * A question in a dialog: `body` elements between its title and its buttons. Resolves with the form's values
 * when `action` is pressed, with null when it is closed otherwise.
 */
export function ask({ title, body = [], action, dangerous = false }) {
  const heading = el("h2", { id: "dialog-title" }, title);
  const cancel = el("button", { type: "button" }, "Close");
  const accept = el("button", { type: "submit", class: dangerous ? "danger" : "primary" }, action);
  const form = el("form", { method: "dialog" }, heading, ...body, el("div", { class: "buttons" }, cancel, accept));
  const dialog = el("dialog", { "aria-labelledby": "dialog-title" }, form);
  document.body.append(dialog);
  dialog.showModal();
  return new Promise((resolve) => {
    let values = null;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      values = Object.fromEntries(new FormData(form));
      dialog.close();
    });
    cancel.addEventListener("click", () => dialog.close());
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(values);
    });
  });
}

/** A short message at the edge of the page, also for screen readers; gone after a while. */
export function notify(message, kind = "info") {
  let shelf = document.querySelector(".notices");
  if (!shelf) document.body.append((shelf = el("div", { class: "notices", role: "status" })));
  const notice = el("p", { class: `notice ${kind}` }, message);
  shelf.append(notice);
  setTimeout(() => notice.remove(), 8000);
}
