// @ts-check
// The table of all pools, locks and semaphores.

import { ask } from './api.js';
import { byID, duration, element, nameOf, number, setText, showCells, showPages, showRows } from './format.js';

/** @typedef {import('./api.js').Pool} Pool */

const rowsPerPage = 50;

export class List {
  constructor() {
    this.eventsPath = 'v1/events';
    this.mostEvents = 500; // a second
    this.body = /** @type {HTMLElement} */ (byID('pools').querySelector('tbody'));
    this.sort = 'waiting';
    this.query = '';
    this.contended = false;
    /** @type {string[]} where the pages begin, up to the one that is shown */
    this.pages = [''];
    this.next = '';
    this.body.addEventListener('click', (event) => {
      const row = event.target instanceof Element ? event.target.closest('tr') : null;
      if (row && !(event.target instanceof HTMLAnchorElement) && getSelection()?.isCollapsed !== false) {
        row.querySelector('a')?.click();
      }
    });
    this.showSort();
  }

  /**
   * Reads the page of the table that is shown.
   * @param {AbortSignal} signal
   * @returns {Promise<void>}
   */
  async read(signal) {
    const query = new URLSearchParams({ sort: this.sort, limit: String(rowsPerPage) });
    const holder = /^holder:\s*(.*)/.exec(this.query)?.[1];
    if (holder ?? this.query) {
      query.set(holder ? 'holder' : 'q', holder ?? this.query);
    }
    if (this.contended) {
      query.set('contended', 'true');
    }
    const after = this.pages[this.pages.length - 1];
    if (after) {
      query.set('after', after);
    }
    /** @type {import('./api.js').PoolList} */
    const answer = await ask('GET', `v1/pools?${query}`, { signal });
    if (answer.pools.length === 0 && this.pages.length > 1) {
      this.pages = [''];
      return this.read(signal);
    }
    this.next = answer.next ?? '';
    this.readAt = performance.now();
    this.show(answer.pools);
  }

  /** @param {Pool[]} pools */
  show(pools) {
    this.pools = pools;
    showRows(this.body, pools, (pool) => pool.hash, newRow, updateRow);
    if (!this.body.querySelector('a[tabindex="0"]')) {
      this.body.querySelector('a')?.setAttribute('tabindex', '0');
    }
    byID('pools').hidden = pools.length === 0;
    const empty = byID('empty');
    empty.hidden = pools.length > 0;
    if (pools.length === 0) {
      setText(empty, this.query || this.contended
        ? 'Nothing here matches. Locks and semaphores are listed while a client holds them or waits for them.'
        : 'Nothing is held yet. Try: kvslots lock nightly -- sleep 60');
    }
    showPages(byID('pages'), this.pages.length, this.next !== '', (step) => this.turn(step));
  }

  /** Lets the waits grow between two readings. */
  tick() {
    const since = (performance.now() - (this.readAt ?? 0)) / 1000;
    this.pools?.forEach((pool, i) => {
      const cell = this.body.children[i]?.children[3];
      if (cell && pool.waiting > 0) {
        setText(cell, duration(pool.oldest_wait_s + since));
      }
    });
  }

  /** @param {import('./events.js').Event} event */
  event(event) {
    return event.type !== 'peer_joined' && event.type !== 'peer_left';
  }

  /** @param {-1 | 1} step */
  turn(step) {
    if (step < 0) {
      this.pages.pop();
    } else {
      this.pages.push(this.next);
    }
    this.onChange();
  }

  /** @param {string} text */
  search(text) {
    this.query = text;
    this.pages = [''];
    this.onChange();
  }

  /** @param {boolean} on */
  onlyContended(on) {
    this.contended = on;
    this.pages = [''];
    this.onChange();
  }

  /** @param {string} by */
  sortBy(by) {
    this.sort = by;
    this.pages = [''];
    this.showSort();
    this.onChange();
  }

  showSort() {
    for (const head of byID('pools').querySelectorAll('th[data-sort]')) {
      if (head instanceof HTMLElement && head.dataset.sort === this.sort) {
        head.setAttribute('aria-sort', 'descending');
      } else {
        head.removeAttribute('aria-sort');
      }
    }
  }

  /** Moves to another row. Only one row at a time can be reached with the key Tab.
   * @param {number | 'first' | 'last'} to a number of rows, up or down
   * @returns {boolean} whether there is such a row
   */
  move(to) {
    const links = [...this.body.querySelectorAll('a')];
    const at = links.findIndex((link) => link === document.activeElement);
    const index = to === 'first' ? 0 : to === 'last' ? links.length - 1 : at + to;
    if (!links[index]) {
      return false;
    }
    this.body.querySelector('a[tabindex="0"]')?.setAttribute('tabindex', '-1');
    links[index].setAttribute('tabindex', '0');
    links[index].focus();
    return true;
  }

  /** Has the page read anew; set by its owner. */
  onChange() {}
}

/** @param {Pool} pool */
function newRow(pool) {
  const row = document.createElement('tr');
  const name = element('td', 'name');
  const link = element('a');
  link.setAttribute('href', `#pool=${pool.hash}`);
  link.setAttribute('tabindex', '-1');
  name.append(link, element('span', 'badge'), element('span', 'hash'));
  const use = element('td', 'use');
  const cells = element('span', 'cells');
  cells.setAttribute('aria-hidden', 'true');
  use.append(cells, element('span', 'figures'));
  row.append(name, use, element('td', 'number'), element('td', 'number'), element('td', 'number wide'));
  return row;
}

/**
 * @param {HTMLTableRowElement} row
 * @param {Pool} pool
 */
function updateRow(row, pool) {
  const [name, use, waiting, oldest, expired] = row.children;
  const [link, badge, hash] = name.children;
  setText(link, nameOf(pool));
  link.setAttribute('title', nameOf(pool));
  setText(badge, pool.paused ? `${pool.type}, paused` : pool.type);
  setText(hash, pool.name ? pool.hash.slice(0, 8) : '');
  showCells(/** @type {HTMLElement} */ (use.firstElementChild), pool);
  setText(use.children[1], `${number(pool.in_use)} / ${number(pool.count)}${pool.out ? `, ${number(pool.out)} out` : ''}`);
  setText(waiting, pool.waiting ? number(pool.waiting) : '–');
  setText(oldest, pool.waiting ? duration(pool.oldest_wait_s) : '–');
  setText(expired, pool.expired ? number(pool.expired) : '–');
  row.classList.toggle('contended', pool.waiting > 0);
}
