// Numbers as people read them.

export function time(ns) {
  const magnitude = Math.abs(ns);
  if (magnitude < 1e3) return `${Math.round(ns)} ns`;
  if (magnitude < 1e6) return `${digits(ns / 1e3)} µs`;
  if (magnitude < 1e9) return `${digits(ns / 1e6)} ms`;
  return `${digits(ns / 1e9)} s`;
}

// A moment of the run, as exact as a view of `spanNs` needs.
export function moment(ns, spanNs) {
  const decimals = Math.min(9, Math.max(0, Math.ceil(-Math.log10(spanNs / 1e9)) + 2));
  const seconds = ns / 1e9;
  if (seconds < 60) return `${seconds.toFixed(decimals)} s`;
  const hours = Math.floor(seconds / 3600);
  const minutes = Math.floor(seconds / 60) % 60;
  const rest = (seconds % 60).toFixed(decimals).padStart(decimals ? decimals + 3 : 2, '0');
  return hours > 0 ? `${hours}:${String(minutes).padStart(2, '0')}:${rest}` : `${minutes}:${rest}`;
}

export function digits(value) {
  const magnitude = Math.abs(value);
  if (magnitude >= 100 || magnitude === 0) return String(Math.round(value));
  return value.toPrecision(3).replace(/\.?0+$/, '');
}

export function bytes(count) {
  const units = ['B', 'KB', 'MB', 'GB', 'TB'];
  let unit = 0;
  while (count >= 1000 && unit < units.length - 1) {
    count /= 1000;
    ++unit;
  }
  return `${digits(count)} ${units[unit]}`;
}

export function percent(share) {
  const value = share * 100;
  return `${value >= 99.95 || value < 0.05 ? Math.round(value) : value.toFixed(1)} %`;
}

// A rate: whole where it is large, three digits where it is not.
export function figure(value) {
  return value >= 100 ? count(value) : digits(value);
}

export function count(number) {
  return Math.round(number).toString().replace(/\B(?=(\d{3})+$)/g, '\u202f');
}

// What each of the sources is called where all are named: with its device where two have one name.
export function namesOf(sources) {
  const often = new Map();
  for (const { name } of sources) often.set(name, (often.get(name) ?? 0) + 1);
  return sources.map(({ name, device }) => (device && often.get(name) > 1 ? `${name} · ${device}` : name));
}
