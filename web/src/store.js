// What the page knows: the newest state, the newest events of each source, and the view.
//
//   server-sent events ─► store ─► timeline, panels
//   /history           ─► store ─► timeline of the past, charts, overview

export const Kind = { stage: 0, in: 1, out: 2, kernel: 3, depth: 4, submitted: 5, completed: 6, control: 7, fault: 8 };

const EVENTS_OF_ROW_MAX = 20000;

// [kind, source, begin, end, packet, stream, value, outcome] as an object.
function unpack(row) {
  return { kind: row[0], source: row[1], begin: row[2], end: row[3], packet: row[4], stream: row[5], value: row[6] };
}

// Events by row of the timeline: "source/kind".
class Rows {
  constructor() {
    this.rows = new Map();
    this.completeSince = 0;
  }

  add(event) {
    const key = `${event.source}/${event.kind}`;
    let row = this.rows.get(key);
    if (!row) this.rows.set(key, (row = []));
    row.push(event);
    if (row.length > EVENTS_OF_ROW_MAX * 1.2) {
      const dropped = row.splice(0, row.length - EVENTS_OF_ROW_MAX);
      this.completeSince = Math.max(this.completeSince, dropped[dropped.length - 1].end);
    }
  }

  get(source, kind) {
    return this.rows.get(`${source}/${kind}`) ?? [];
  }
}

export class Store {
  constructor() {
    this.state = null;
    this.stateReceived = 0;
    this.live = new Rows();
    // Before this moment single events are not all here.
    this.completeSince = Infinity;
    this.past = null; // the answer of /history to the view
    this.pastRows = null;
    this.overview = null;
    this.view = { following: true, span: 2e9, to: 0 };
    this.events = 0;
  }

  setState(state) {
    this.state = state;
    this.stateReceived = performance.now();
  }

  // The run's clock, carried on between two states.
  now() {
    if (!this.state) return 0;
    return this.state.snapshot.at_ns + (performance.now() - this.stateReceived) * 1e6;
  }

  addEvents(message) {
    if (this.completeSince === Infinity) this.completeSince = this.state ? this.state.snapshot.at_ns : 0;
    if (message.missed > 0 && message.events.length > 0) this.completeSince = message.events[0][3];
    for (const row of message.events) this.live.add(unpack(row));
    this.events += message.events.length;
  }

  setPast(answer) {
    this.past = answer;
    this.pastRows = null;
    if (answer.has_events) {
      this.pastRows = new Rows();
      for (const row of answer.events) this.pastRows.add(unpack(row));
    }
  }

  // The view's borders in nanoseconds. What follows lags a little, so that runs can end first.
  range() {
    const to = this.view.following ? this.now() - 250e6 : this.view.to;
    return { from: to - this.view.span, to };
  }

  // The events to draw, or null where there are only bins.
  rowsFor(range) {
    if (range.from >= Math.max(this.completeSince, this.live.completeSince)) return this.live;
    const covered = this.past && this.past.from <= range.from && this.past.to >= range.to;
    return covered ? this.pastRows : null;
  }

  sources(kind) {
    return this.state ? this.state.snapshot.sources.filter((source) => source.kind === kind) : [];
  }

  follow(span = this.view.span) {
    this.view = { following: true, span, to: 0 };
  }

  show(from, to) {
    const end = Math.max(this.now(), 1e6);
    const span = Math.min(Math.max(to - from, 10e3), Math.max(end * 1.2, 1e9));
    const last = Math.min(Math.max(to, span * 0.5), end + span * 0.2);
    this.view = { following: false, span, to: last };
  }

  pause() {
    const { from, to } = this.range();
    this.view = { following: false, span: to - from, to };
  }
}
