// Which of the eight colours a sequence has while it is in flight: the same in the table and in the map.

const COLOURS = 8;
const taken = new Map();

/** Give colours to sequences that are new, and take back those of sequences that ended. */
export function assign(keys) {
  const now = new Set(keys);
  for (const key of taken.keys()) if (!now.has(key)) taken.delete(key);
  const uses = Array(COLOURS).fill(0);
  for (const colour of taken.values()) uses[colour] += 1;
  for (const key of now) {
    if (taken.has(key)) continue;
    const colour = uses.indexOf(Math.min(...uses));
    uses[colour] += 1;
    taken.set(key, colour);
  }
}

export function colourOf(key) {
  return taken.get(key) ?? 0;
}

export function keyOf(request) {
  return `${request.engine}/${request.id}/${request.choice}`;
}
