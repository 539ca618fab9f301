// The virtual cards of the run: groups of cores, coloured by the tenant that has them, with what each core, channel,
// bus, ring link and network port does.
//
//   card 0                           tenant   network   cores  weight  runs  images/s
//   group 0        group 1           ■ a ...
//   [0][1][2][3]   [4][5][6][7]
//   channel ▇▇▁▁   channel ▇▁▁▁
//   network out ▇▁▁▁

import { colorOf } from './canvas.js';
import { bytes, count, figure } from './format.js';
import { element } from './panels.js';

const OF_GROUP = [['dram', 'channel'], ['broadcast', 'broadcast'], ['ring', 'ring']];
const OF_CARD = [['network_out', 'network out'], ['network_in', 'network in']];

// Who has each core: the place of its tenant, and whether it is only being linked for it.
function owners(card) {
  const owner = new Map();
  card.processors.forEach((one, index) => {
    one.cores.forEach((core) => owner.set(core, { one, index, reserved: false }));
    one.reserved.forEach((core) => owner.set(core, { one, index, reserved: true }));
  });
  return owner;
}

function drawTenant(one, index) {
  const mark = element('i');
  mark.style.background = colorOf(index);
  const name = element('td', {}, mark, one.name);
  const cells = [one.networks.join(', '), one.cores.length === 0 ? 'waits' : one.cores.length, one.weight,
    `${bytes(one.memory_bytes)} at ${bytes(one.memory_first)}`, count(one.runs), one.failures > 0 ? `${count(one.failures)} failed` : '',
    figure(one.images_per_second)];
  return element('tr', {}, name, ...cells.map((text) => element('td', { textContent: text })));
}

// A card, or several on one clock, as one state tells of them; parts are filled in by those that follow.
class DrawnCard {
  constructor(card) {
    this.meters = new Map(); // by kind and index
    this.before = { cycles: 0, busy: new Map() };
    const owner = owners(card);
    const titles = ['tenant', 'networks', 'cores', 'weight', 'memory of a group', 'runs', '', 'images/s'];
    const table = element('table', { className: 'tenants' },
      element('tr', {}, ...titles.map((title) => element('th', { textContent: title }))),
      ...card.processors.map(drawTenant));
    const all = element('div', { className: 'allcards' });
    for (let index = 0; index < card.cards; ++index) all.append(this.drawOne(card, index, owner));
    this.root = element('div', { className: 'vcard', ariaLabel: card.arch }, all, element('div', { className: 'scrolled' }, table));
  }

  drawOne(card, index, owner) {
    const groups = element('div', { className: 'groups' });
    const ofCard = card.groups / card.cards;
    for (let group = index * ofCard; group < (index + 1) * ofCard; ++group) groups.append(this.drawGroup(card, group, owner));
    const root = element('div', { className: 'onecard' });
    if (card.cards > 1) root.append(element('span', { className: 'name', textContent: `card ${index}` }));
    root.append(groups, ...this.drawMeters(card, OF_CARD, index));
    return root;
  }

  drawGroup(card, group, owner) {
    const cores = element('div', { className: 'cores' });
    for (let i = 0; i < card.cores_per_group; ++i) {
      const core = group * card.cores_per_group + i;
      cores.append(this.drawCore(core, owner.get(core)));
    }
    return element('div', { className: 'group' }, element('span', { textContent: `group ${group}` }), cores,
      ...this.drawMeters(card, OF_GROUP, group));
  }

  drawCore(core, owned) {
    const fill = element('b');
    const root = element('div', { className: owned?.reserved ? 'core reserved' : 'core', textContent: core });
    root.append(fill);
    const title = owned ? `core ${core}: ${owned.one.name}${owned.reserved ? ', being linked' : ''}` : `core ${core}: free`;
    root.title = title;
    root.dataset.tenant = owned ? owned.one.name : '';
    if (owned) Object.assign(root.style, { background: colorOf(owned.index), color: '#fff' });
    this.meters.set(`core ${core}`, { root, fill, title });
    return root;
  }

  // A bar for each of the kinds that the card has.
  drawMeters(card, kinds, index) {
    return kinds.filter(([kind]) => card.parts.some((part) => part.kind === kind && part.index === index)).map(([kind, name]) => {
      const fill = element('b');
      const root = element('div', { className: 'meter' }, element('span', { textContent: name }), element('div', {}, fill));
      this.meters.set(`${kind} ${index}`, { root, fill, title: `${name} ${index}` });
      return root;
    });
  }

  // Of the cycles since the state before; while the clock stands still, what was shown stays.
  update(card) {
    const cycles = card.cycles - this.before.cycles;
    if (cycles <= 0) return;
    for (const part of card.parts) {
      const name = `${part.kind} ${part.index}`;
      const meter = this.meters.get(name);
      const busy = part.busy_cycles - (this.before.busy.get(name) ?? 0);
      this.before.busy.set(name, part.busy_cycles);
      if (!meter) continue;
      const percent = `${(100 * Math.min(1, busy / cycles)).toFixed(1)} %`;
      meter.fill.style.width = percent.replace(' ', '');
      meter.root.dataset.busy = percent;
      meter.root.title = `${meter.title}; busy ${percent}, ${bytes(part.bytes)} in all`;
    }
    this.before.cycles = card.cycles;
  }
}

export class Cards {
  constructor(section, list) {
    this.section = section;
    this.list = list;
    this.shown = '';
    this.drawn = [];
  }

  draw(cards) {
    this.section.hidden = cards.length === 0;
    // What stands still is left as it is, so that a pointer finds its text.
    const text = JSON.stringify(cards.map((card) => card.processors));
    if (text !== this.shown) {
      this.shown = text;
      const before = this.drawn.map((card) => card.before);
      this.drawn = cards.map((card) => new DrawnCard(card));
      this.drawn.forEach((card, index) => { card.before = before[index] ?? card.before; });
      this.list.replaceChildren(...this.drawn.map((card) => card.root));
    }
    this.drawn.forEach((card, index) => card.update(cards[index]));
  }
}
