// The virtual cards of the run: groups of cores, coloured by the tenant that has them.
//
//   group 0        group 1        tenant   network   cores  weight  runs  images/s
//   [0][1][2][3]   [4][5][6][7]   ■ a ...

import { colorOf } from './canvas.js';
import { bytes, count, figure } from './format.js';
import { element } from './panels.js';

// Who has each core: the place of its tenant, and whether it is only being linked for it.
function owners(card) {
  const owner = new Map();
  card.processors.forEach((one, index) => {
    one.cores.forEach((core) => owner.set(core, { one, index, reserved: false }));
    one.reserved.forEach((core) => owner.set(core, { one, index, reserved: true }));
  });
  return owner;
}

function drawCore(core, owned) {
  const root = element('div', { className: owned?.reserved ? 'core reserved' : 'core', textContent: core });
  root.title = owned ? `core ${core}: ${owned.one.name}${owned.reserved ? ', being linked' : ''}` : `core ${core}: free`;
  root.dataset.tenant = owned ? owned.one.name : '';
  if (owned) root.style.background = colorOf(owned.index);
  return root;
}

function drawGroup(card, group, owner) {
  const cores = element('div', { className: 'cores' });
  for (let i = 0; i < card.cores_per_group; ++i) {
    const core = group * card.cores_per_group + i;
    cores.append(drawCore(core, owner.get(core)));
  }
  return element('div', { className: 'group' }, element('span', { textContent: `group ${group}` }), cores);
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

export class Cards {
  constructor(section, list) {
    this.section = section;
    this.list = list;
    this.shown = '';
  }

  draw(cards) {
    this.section.hidden = cards.length === 0;
    // What stands still is left as it is, so that a pointer finds its text.
    const text = JSON.stringify(cards.map((card) => card.processors));
    if (text === this.shown) return;
    this.shown = text;
    this.list.replaceChildren(...cards.map((card) => {
      const owner = owners(card);
      const groups = element('div', { className: 'groups' });
      for (let group = 0; group < card.groups; ++group) groups.append(drawGroup(card, group, owner));
      const titles = ['tenant', 'networks', 'cores', 'weight', 'memory of a group', 'runs', '', 'images/s'];
      const table = element('table', { className: 'tenants' },
        element('tr', {}, ...titles.map((title) => element('th', { textContent: title }))),
        ...card.processors.map(drawTenant));
      return element('div', { className: 'vcard', ariaLabel: card.arch }, groups, table);
    }));
  }
}
