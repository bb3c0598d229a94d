// Numbers in the words of the page.

const GROUPED = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const NONE = "–";

/** 1,284,210; up to 10 with one digit after the point where there is one. */
export function count(value) {
  if (value == null) return NONE;
  return value < 10 && value % 1 ? value.toFixed(1) : GROUPED.format(value);
}

/** Seconds as 18.2 ms, 3.41 s, 2 min 5 s. */
export function duration(seconds) {
  if (seconds == null) return NONE;
  if (seconds === 0) return "0 ms";
  if (seconds < 0.0009995) return `${digits(seconds * 1e6)} µs`;
  if (seconds < 0.9995) return `${digits(seconds * 1e3)} ms`;
  if (seconds < 60) return `${digits(seconds)} s`;
  return age(seconds);
}

function digits(value) {
  return value >= 99.95 ? value.toFixed(0) : value >= 9.995 ? value.toFixed(1) : value.toFixed(2);
}

/** Whole seconds: 42 s, 3 min 5 s, 2 h 7 min, 4 d 3 h. */
export function age(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  if (whole < 86400) return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
  return `${Math.floor(whole / 86400)} d ${Math.floor((whole % 86400) / 3600)} h`;
}

export function percent(share) {
  if (share == null) return NONE;
  if (share > 0 && share < 0.0005) return "< 0.1 %";
  return share > 0 && share < 0.095 ? `${(share * 100).toFixed(1)} %` : `${Math.round(share * 100)} %`;
}

export function bytes(value) {
  if (value == null) return NONE;
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (value >= 999.5 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${value >= 99.5 || !unit ? value.toFixed(0) : value.toFixed(1)} ${units[unit]}`;
}

/** Unix seconds → the time of day. */
export function clock(unix) {
  return new Date(unix * 1000).toLocaleTimeString("en-GB");
}
