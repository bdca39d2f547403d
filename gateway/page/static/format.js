// @ts-check
// Texts and elements. All text of clients gets into the page as text, never as HTML.

/**
 * Returns the element of index.html with an id.
 * @param {string} id
 * @returns {HTMLElement}
 */
export function byID(id) {
  const found = document.getElementById(id);
  if (!found) {
    throw new Error(`no element ${id}`);
  }
  return found;
}

/**
 * Returns a new element with a class and a text.
 * @param {string} tag
 * @param {string} [className]
 * @param {string} [text]
 * @returns {HTMLElement}
 */
export function element(tag, className = '', text = '') {
  const made = document.createElement(tag);
  if (className) {
    made.className = className;
  }
  made.textContent = text;
  return made;
}

/**
 * Sets a text, if it is another one: the browser lays the page out anew only for changes.
 * @param {Element} target
 * @param {string} text
 */
export function setText(target, text) {
  if (target.textContent !== text) {
    target.textContent = text;
  }
}

/**
 * Returns a duration such as 4 s, 3 min 10 s or 2 h 5 min.
 * @param {number} seconds
 * @returns {string}
 */
export function duration(seconds) {
  const s = Math.max(0, Math.floor(seconds));
  const [d, h, m] = [Math.floor(s / 86400), Math.floor(s / 3600) % 24, Math.floor(s / 60) % 60];
  if (d > 0) {
    return h > 0 ? `${d} d ${h} h` : `${d} d`;
  }
  if (h > 0) {
    return m > 0 ? `${h} h ${m} min` : `${h} h`;
  }
  if (m > 0) {
    return s % 60 > 0 ? `${m} min ${s % 60} s` : `${m} min`;
  }
  return `${s} s`;
}

/**
 * Returns a number with separators of thousands.
 * @param {number} n
 */
export const number = (n) => n.toLocaleString('en-US');

/**
 * Returns how the page names a pool.
 * @param {{hash: string, name?: string, key?: string}} pool
 */
export const nameOf = (pool) => isolated(pool.key ?? pool.name ?? `${pool.hash.slice(0, 12)}…`);

/**
 * Returns a text of a client for a place in another one, whose order a text from right to left would
 * change otherwise.
 * @param {string} text
 * @returns {string}
 */
export const isolated = (text) => (/[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u.test(text) ? `\u2068${text}\u2069` : text);

const maxCells = 24;

/**
 * Shows how many slots are in use as cells: one for each slot, or of many slots one for several.
 * @param {HTMLElement} target
 * @param {import('./api.js').Pool} pool
 */
export function showCells(target, pool) {
  // A slot that is lent and out of service is shown as lent.
  const outOnly = Math.min(pool.out, Math.max(0, pool.count - pool.in_use - pool.available));
  const all = Math.max(pool.count, pool.in_use);
  const scale = all > maxCells ? maxCells / all : 1;
  const used = Math.ceil(pool.in_use * scale);
  const out = Math.min(Math.ceil(outOnly * scale), Math.round(all * scale) - used);
  target.style.setProperty('--cells', String(Math.round(all * scale)));
  target.style.setProperty('--used', String(used));
  target.style.setProperty('--taken', String(used + Math.max(0, out)));
}

/**
 * Makes the rows of a table those of items, in their order, and keeps the rows and the focus of
 * items that stay.
 * @template T
 * @param {HTMLElement} body
 * @param {T[]} items
 * @param {(item: T) => string} keyOf
 * @param {(item: T) => HTMLTableRowElement} make
 * @param {(row: HTMLTableRowElement, item: T) => void} update
 */
export function showRows(body, items, keyOf, make, update) {
  const focused = document.activeElement;
  /** @type {Map<string, HTMLTableRowElement>} */
  const old = new Map();
  for (const row of body.children) {
    if (row instanceof HTMLTableRowElement) {
      old.set(row.dataset.key ?? '', row);
    }
  }
  let next = body.firstElementChild;
  for (const item of items) {
    const key = keyOf(item);
    let row = old.get(key);
    old.delete(key);
    if (!row) {
      row = make(item);
      row.dataset.key = key;
    }
    update(row, item);
    if (row === next) {
      next = next.nextElementSibling;
    } else {
      body.insertBefore(row, next);
    }
  }
  for (const row of old.values()) {
    row.remove();
  }
  if (focused instanceof HTMLElement && focused !== document.activeElement && focused.isConnected) {
    focused.focus({ preventScroll: true });
  }
}

/**
 * Shows the buttons of a table's pages, or none if there is one page only.
 * @param {HTMLElement} nav
 * @param {number} page from 1
 * @param {boolean} more whether there is a next page
 * @param {(step: -1 | 1) => void} go
 */
export function showPages(nav, page, more, go) {
  nav.hidden = page === 1 && !more;
  if (!nav.firstChild) {
    const back = element('button', '', '← Previous');
    const forth = element('button', '', 'Next →');
    back.addEventListener('click', () => go(-1));
    forth.addEventListener('click', () => go(1));
    nav.append(back, element('span'), forth);
  }
  const [back, at, forth] = nav.children;
  /** @type {HTMLButtonElement} */ (back).disabled = page === 1;
  /** @type {HTMLButtonElement} */ (forth).disabled = !more;
  setText(at, `page ${page}`);
}
