// @ts-check
// One pool: its slots, its line, and what has happened in it since it was opened.

import { ask, Refusal } from './api.js';
import { Chart } from './chart.js';
import { byID, duration, element, isolated, nameOf, number, setText, showCells, showPages, showRows } from './format.js';
import { verbsOfPool, verbsOfSlot } from './verbs.js';

/** @typedef {import('./api.js').Detail} Detail */

const rowsPerPage = 100;
const freeUpTo = 64; // slots of a pool whose free slots are listed, too

/**
 * A row of the table of slots: a lease, a slot out of service, both, or neither.
 * @typedef {{position: number, lease?: import('./api.js').Lease, out?: string}} Slot
 */

export class PoolView {
  /**
   * @param {string} hash
   * @param {string} secret the pool's UUID, if the user has typed it; otherwise ''
   * @param {boolean} admin
   */
  constructor(hash, secret, admin) {
    this.hash = hash;
    this.secret = secret;
    this.admin = admin;
    this.path = `v1/pools/${hash}`;
    this.eventsPath = `v1/events?pool=${hash}`;
    this.mostEvents = 5000; // a second
    /** @type {number[]} where the pages begin, up to the one that is shown */
    this.slotPages = [0];
    this.linePages = [0];
    this.grants = new Chart('Grants', 'sum');
    this.waits = new Chart('Longest wait', 'max', duration);
    this.expiries = new Chart('Expiries', 'sum');
    this.readAt = 0;
    byID('charts').replaceChildren(this.grants.element, this.waits.element, this.expiries.element);
    for (const id of ['pool-facts', 'slots-pages', 'line-pages', 'verbs']) {
      byID(id).replaceChildren();
    }
    for (const id of ['slots', 'line']) {
      body(id).replaceChildren();
      byID(`${id}-empty`).hidden = true;
    }
    setText(byID('pool-name'), `${hash.slice(0, 12)}…`);
    setText(byID('pool-kind'), '');
    setText(byID('pool-hash'), hash);
    byID('paused').hidden = true;
  }

  /**
   * Reads the pages of slots and line that are shown.
   * @param {AbortSignal} signal
   * @returns {Promise<void>}
   */
  async read(signal) {
    const [from, after] = [this.slotPages, this.linePages].map((pages) => pages[pages.length - 1]);
    /** @type {Detail} */
    let pool;
    try {
      pool = await ask('GET', `${this.path}?from=${from}&leases=${rowsPerPage}&after=${after}&line=${rowsPerPage}`, { signal });
    } catch (error) {
      if (!(error instanceof Refusal && error.code === 'no_pool')) {
        throw error;
      }
      pool = { ...(this.pool ?? none(this.hash)), ...nothing };
      this.missing = true;
      this.show(pool);
      return;
    }
    this.missing = false;
    this.pool = pool;
    this.readAt = performance.now();
    if (this.linePages.length > 1 && pool.line.length === 0) {
      this.linePages = [0];
      return this.read(signal);
    }
    this.show(pool);
  }

  /** @param {Detail} pool */
  show(pool) {
    setText(byID('pool-name'), nameOf(pool));
    setText(byID('pool-kind'), this.pool ? pool.type : 'unknown');
    const paused = byID('paused');
    paused.hidden = !pool.paused;
    setText(paused, `Paused: no slot is lent. ${isolated(pool.pause_reason ?? '')}`);
    showFacts(pool);
    this.slots = slotsOf(pool, this.slotPages.length === 1 && !pool.next_from);
    const verbs = this.admin && !this.missing;
    showRows(body('slots'), this.slots, keyOfSlot, newSlot, (row, slot) => updateSlot(row, slot, verbs ? this : undefined));
    byID('slots').classList.toggle('with-verbs', verbs);
    showRows(body('line'), pool.line, (place) => `${place.place}`, newPlace, updatePlace);
    const gone = this.pool ? 'Not in use any more: no client holds it or waits for it.' : 'Unknown: no pool has this hash, and no lock or semaphore in use has it.';
    empty('slots', this.slots.length, this.missing ? `${gone} The page goes on watching.` : 'All slots are free.');
    empty('line', pool.line.length, 'No borrower waits.');
    showPages(byID('slots-pages'), this.slotPages.length, !!pool.next_from, (step) => this.turn(this.slotPages, step, pool.next_from ?? 0));
    showPages(byID('line-pages'), this.linePages.length, !!pool.next_after, (step) => this.turn(this.linePages, step, pool.next_after ?? 0));
    byID('verbs').hidden = !verbs;
    if (verbs) {
      verbsOfPool(byID('verbs'), this);
    }
    this.tick();
  }

  /** Lets ages grow and leases run out between two readings. */
  tick() {
    const since = (performance.now() - this.readAt) / 1000;
    this.slots?.forEach((slot, i) => {
      const cells = body('slots').children[i]?.children;
      if (cells && slot.lease) {
        setText(cells[2], duration(slot.lease.age_s + since));
        const left = slot.lease.expires_in_s - since;
        setText(cells[3], duration(left));
        cells[3].classList.toggle('soon', left < 5);
      }
    });
    this.pool?.line.forEach((place, i) => {
      const cell = body('line').children[i]?.children[2];
      if (cell) {
        setText(cell, duration(place.waited_s + since));
      }
    });
    for (const chart of [this.grants, this.waits, this.expiries]) {
      chart.show();
    }
    if (this.pool?.waiting && !this.missing) {
      const wait = document.querySelector('#pool-facts [data-fact="oldest"]');
      if (wait) {
        setText(wait, duration(this.pool.oldest_wait_s + since));
      }
    }
  }

  /** @param {import('./events.js').Event} event */
  event(event) {
    if (event.type === 'granted') {
      this.grants.add(1);
      if (event.waited_s) {
        this.waits.add(event.waited_s);
      }
    } else if (event.type === 'expired') {
      this.expiries.add(1);
    }
    return event.hash === this.hash || event.type === 'starts_over';
  }

  /**
   * @param {number[]} pages
   * @param {-1 | 1} step
   * @param {number} next
   */
  turn(pages, step, next) {
    // The buttons keep their first listener, so the next page is the one of the last reading.
    if (step < 0) {
      pages.pop();
    } else {
      pages.push((pages === this.slotPages ? this.pool?.next_from : this.pool?.next_after) ?? next);
    }
    this.onChange();
  }

  /** Has the page read anew; set by its owner. */
  onChange() {}
}

/** What is left of a pool that has ended. */
const nothing = { in_use: 0, available: 0, waiting: 0, oldest_wait_s: 0, out: 0, paused: false, out_of_service: [], leases: [], line: [], next_from: 0, next_after: 0 };

/**
 * @param {string} hash
 * @returns {Detail}
 */
const none = (hash) => ({ hash, type: 'pool', count: 0, expired: 0, ...nothing });

/**
 * @param {string} id of a table
 * @returns {HTMLElement}
 */
const body = (id) => /** @type {HTMLElement} */ (byID(id).querySelector('tbody'));

/**
 * @param {string} id of a table
 * @param {number} rows
 * @param {string} text instead of the table without rows
 */
function empty(id, rows, text) {
  byID(id).hidden = rows === 0;
  const target = byID(`${id}-empty`);
  target.hidden = rows > 0;
  setText(target, text);
}

/** @param {Detail} pool */
function showFacts(pool) {
  const facts = byID('pool-facts');
  if (!facts.firstChild) {
    for (const [name, title] of [['use', 'In use'], ['waiting', 'Waiting'], ['oldest', 'Oldest wait'], ['expired', 'Expired within the hour']]) {
      const group = element('div');
      const value = element('dd');
      value.dataset.fact = name;
      if (name === 'use') {
        const cells = element('span', 'cells');
        cells.setAttribute('aria-hidden', 'true');
        value.append(cells, element('span', 'figures'));
      }
      group.append(element('dt', '', title), value);
      facts.append(group);
    }
  }
  const [use, waiting, oldest, expired] = facts.querySelectorAll('dd');
  showCells(/** @type {HTMLElement} */ (use.firstElementChild), pool);
  setText(use.children[1], `${number(pool.in_use)} / ${number(pool.count)}${pool.out ? `, ${number(pool.out)} out of service` : ''}`);
  setText(waiting, number(pool.waiting));
  setText(oldest, pool.waiting ? duration(pool.oldest_wait_s) : '–');
  setText(expired, number(pool.expired));
}

/**
 * @param {Detail} pool
 * @param {boolean} whole whether all slots are on this page
 * @returns {Slot[]}
 */
function slotsOf(pool, whole) {
  /** @type {Map<number, Slot>} */
  const slots = new Map();
  if (whole && pool.count <= freeUpTo && pool.in_use + pool.out > 0) {
    for (let position = 0; position < pool.count; position++) {
      slots.set(position, { position });
    }
  }
  for (const lease of pool.leases) {
    slots.set(lease.position, { position: lease.position, lease });
  }
  const positions = pool.leases.map((lease) => lease.position);
  for (const { position, reason } of pool.out_of_service) {
    // Those between the leases of other pages are on these.
    if (whole || (position >= Math.min(...positions) && (!pool.next_from || position < pool.next_from))) {
      slots.set(position, { ...(slots.get(position) ?? { position }), out: reason });
    }
  }
  return [...slots.values()].sort((a, b) => a.position - b.position);
}

// A row is that of one lease: what the user is about to click never becomes another lease.
/** @param {Slot} slot */
const keyOfSlot = (slot) => `${slot.position} ${slot.lease?.fence ?? ''} ${slot.out !== undefined}`;

function newSlot() {
  const row = document.createElement('tr');
  row.append(element('td', 'number'), element('td', 'label'), element('td', 'number'), element('td', 'number'), element('td', 'number fence'), element('td', 'verb'));
  return row;
}

/**
 * @param {HTMLTableRowElement} row
 * @param {Slot} slot
 * @param {PoolView} [view] with the buttons of operators
 */
function updateSlot(row, slot, view) {
  const [position, label, age, ends, fence, verb] = row.children;
  const { lease, out } = slot;
  setText(position, String(slot.position));
  const state = out === undefined ? '' : `out of service${out ? `: ${isolated(out)}` : ''}`;
  setText(label, [lease ? isolated(lease.label) || '(no label)' : state ? '' : 'free', state].filter(Boolean).join(' — '));
  row.classList.toggle('free', !lease && out === undefined);
  row.classList.toggle('out', out !== undefined);
  label.classList.toggle('unlabelled', lease?.label === '');
  if (!lease) {
    setText(age, '');
    setText(ends, '');
  }
  setText(fence, lease ? String(lease.fence) : '');
  if (view && !verb.firstChild) {
    verb.append(...verbsOfSlot(view, slot));
  }
}

function newPlace() {
  const row = document.createElement('tr');
  row.append(element('td', 'number'), element('td', 'label'), element('td', 'number'));
  return row;
}

/**
 * @param {HTMLTableRowElement} row
 * @param {import('./api.js').Place} place
 */
function updatePlace(row, place) {
  const [number, label] = row.children;
  setText(number, String(place.place));
  setText(label, place.label || '(no label)');
  label.classList.toggle('unlabelled', place.label === '');
}
