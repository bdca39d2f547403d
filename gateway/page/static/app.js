// @ts-check
// The page: which view is shown, what keeps it up to date, and the state of the gateway.

import { ask, onTokenNeeded, Refusal } from './api.js';
import { follow } from './events.js';
import { byID, duration, number, setText } from './format.js';
import { List } from './list.js';
import { PoolView } from './pool.js';
import { Refresher } from './refresher.js';

const pollEvery = 1000; // milliseconds, without events
const checkEvery = 5000; // the state of the gateway
const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

const list = new List();
/** @type {List | PoolView} */
let view = list;
/** Ends what the view has begun. */
let leaving = new AbortController();
/** @type {import('./events.js').Mode | 'connecting'} */
let mode = 'connecting';
let admin = false;
let answered = performance.now(); // when the view was last read
let failing = ''; // why it could not be read
/** UUIDs that the user has typed, by hash: in memory only, never in the address. */
const secrets = new Map();

const refresher = new Refresher(async () => {
  const [of, signal] = [view, leaving.signal];
  try {
    await of.read(signal);
    answered = performance.now();
    failing = '';
  } catch (error) {
    if (signal.aborted) {
      return;
    }
    failing = error instanceof Refusal ? `The gateway refuses: ${error.message}.` : 'The gateway does not answer.';
    setTimeout(() => refresher.poke(), pollEvery);
  }
  showState();
});
const checker = new Refresher(check, 500);

/** How the gateway flushes, in the words of its flags. @type {Record<string, string>} */
const syncs = { group: '--sync always', always: '--sync always', interval: '--sync interval', external: 'NATS flushes' };

/** Reads the state of the gateway. */
async function check() {
  try {
    /** @type {import('./api.js').State} */
    const state = await ask('GET', 'v1/page');
    if (admin !== (state.ui === 'admin')) {
      admin = state.ui === 'admin';
      if (view instanceof PoolView) {
        view.admin = admin;
        refresher.now();
      }
    }
    const lag = state.lag_revisions > 0 ? `lag ${number(state.lag_revisions)} entries` : state.lag_s > 5 ? `lag ${duration(state.lag_s)}` : 'no lag';
    setText(byID('facts'), [
      state.peers === 1 ? '1 gateway' : `${number(state.peers)} gateways`,
      syncs[state.sync], lag, `${number(state.waiting)} waiting`, state.version,
    ].join(' · '));
    byID('facts').title = 'Gateways, and programs with the library, that share the bucket; how this gateway flushes; how far its view is behind';
    unready = state.ready ? '' : `This gateway is not ready: ${state.reason ?? ''}`;
  } catch {
    // The view says what is wrong.
  }
  showState();
}
let unready = '';

/** Shows whether the page is up to date. */
function showState() {
  const age = (performance.now() - answered) / 1000;
  const gone = failing !== '';
  const shown = gone ? 'gone' : mode;
  const live = byID('live');
  live.dataset.state = shown;
  setText(live, { live: 'live', polling: 'read every second', gone: gone ? 'gateway gone' : 'connecting', connecting: 'connecting' }[shown]);
  const notice = byID('notice');
  const text = gone ? `${failing} This is what it answered ${duration(age)} ago.` : unready;
  notice.hidden = text === '';
  setText(notice, text);
  document.body.classList.toggle('stale', gone);
}

/**
 * Encodes a pool of the address for a path, of which it must not become more than one element.
 * @param {string} text
 */
function encoded(text) {
  try {
    text = decodeURIComponent(text);
  } catch {
    // It has a % of its own.
  }
  return encodeURIComponent(text).replace(/^\.+$/, '-');
}

/** Shows what the address says: #pool=<hash>, or all pools. A name, or the beginning of a hash, becomes the hash. */
function route() {
  const named = /^#pool=(.+)$/.exec(location.hash)?.[1];
  const hash = named && /^[0-9a-f]{32}$/.exec(named)?.[0];
  if (named && !hash) {
    ask('GET', `v1/pools/${encoded(named)}`).then((pool) => location.replace(`#pool=${pool.hash}`), () => location.replace('#'));
    return;
  }
  const before = view;
  view = hash ? new PoolView(hash, secrets.get(hash) ?? '', admin) : list;
  view.onChange = () => refresher.now();
  byID('list').hidden = !!hash;
  byID('pool').hidden = !hash;
  document.title = hash ? `${hash.slice(0, 8)} · kvslots` : 'kvslots';
  watch();
  if (hash) {
    byID('pool-name').focus({ preventScroll: true });
    scrollTo(0, 0);
  } else if (before instanceof PoolView) {
    const link = byID('pools').querySelector(`a[href="#pool=${before.hash}"]`);
    if (link instanceof HTMLElement) {
      link.focus();
    }
  }
}

/** Reads the view, and follows its events as long as the page can be seen: a browser has few
 * connections to a gateway, and hidden pages need none. */
function watch() {
  leaving.abort();
  refresher.stop();
  leaving = new AbortController();
  if (document.hidden) {
    return;
  }
  refresher.now();
  checker.now();
  const [of, signal] = [view, leaving.signal];
  follow({
    path: of.eventsPath, most: of.mostEvents, signal,
    onEvent(event) {
      if (event.type.startsWith('peer_') || event.type === 'starts_over') {
        checker.poke();
      }
      if (of.event(event)) {
        refresher.poke();
      }
    },
    onMode(to) {
      if (to === 'live' && mode !== 'live') {
        refresher.poke();
        checker.poke();
      }
      if (to === 'gone' && mode !== 'gone') {
        refresher.poke(); // it says whether the gateway is gone, or only the stream
      }
      mode = to;
      showState();
    },
  });
}

/**
 * Opens a pool whose UUID the user has typed. It goes into a header, so that it is in no address,
 * no history and no log of a proxy.
 * @param {string} id
 */
async function openByID(id) {
  try {
    /** @type {{hash: string}} */
    const pool = await ask('GET', 'l/self', { headers: { 'Kvslots-Pool': id } });
    secrets.set(pool.hash, id);
    location.hash = `pool=${pool.hash}`;
  } catch (error) {
    failing = error instanceof Refusal && error.code === 'no_pool' ? 'There is no pool with this UUID.' : error instanceof Refusal ? `The gateway refuses: ${error.message}.` : 'The gateway does not answer.';
    const notice = byID('notice');
    notice.hidden = false;
    setText(notice, failing);
    failing = '';
  }
}

/** Asks the user for the token. */
onTokenNeeded((wrong) => new Promise((resolve) => {
  const dialog = /** @type {HTMLDialogElement} */ (byID('token'));
  const input = /** @type {HTMLInputElement} */ (byID('token-text'));
  const form = /** @type {HTMLFormElement} */ (dialog.querySelector('form'));
  byID('token-wrong').hidden = !wrong;
  form.onsubmit = (event) => {
    event.preventDefault();
    const text = input.value.trim();
    input.value = '';
    dialog.close();
    answered = performance.now();
    resolve(text);
  };
  dialog.oncancel = (event) => event.preventDefault(); // there is nothing to see without the token
  dialog.showModal();
  input.focus();
}));

const search = /** @type {HTMLInputElement} */ (byID('search'));
/** @type {ReturnType<typeof setTimeout> | undefined} */
let typing;
search.addEventListener('input', () => {
  const text = search.value.trim();
  clearTimeout(typing);
  if (uuid.test(text)) {
    search.value = '';
    list.query = '';
    openByID(text.toLowerCase());
    return;
  }
  typing = setTimeout(() => list.search(text), 150);
});
byID('filter').addEventListener('submit', (event) => event.preventDefault());
byID('contended').addEventListener('change', (event) => list.onlyContended(/** @type {HTMLInputElement} */ (event.target).checked));
for (const head of byID('pools').querySelectorAll('th[data-sort]')) {
  head.querySelector('button')?.addEventListener('click', () => list.sortBy(/** @type {HTMLElement} */ (head).dataset.sort ?? 'waiting'));
}

document.addEventListener('keydown', (event) => {
  if (document.querySelector('dialog[open]') || event.ctrlKey || event.metaKey || event.altKey) {
    return;
  }
  const inSearch = document.activeElement === search;
  if (view instanceof PoolView) {
    if (event.key === 'Escape') {
      location.hash = '';
    }
    return;
  }
  /** @type {Record<string, () => boolean>} */
  const keys = {
    ArrowDown: () => list.move(inSearch ? 'first' : 1),
    ArrowUp: () => list.move(-1) || (search.focus(), true),
    Home: () => !inSearch && list.move('first'),
    End: () => !inSearch && list.move('last'),
    '/': () => !inSearch && (search.focus(), true),
    Escape: () => {
      if (search.value) {
        search.value = '';
        list.search('');
      }
      return list.move('first');
    },
  };
  if (keys[event.key]?.()) {
    event.preventDefault();
  }
});

addEventListener('hashchange', route);
document.addEventListener('visibilitychange', watch);
setInterval(() => {
  if (document.hidden) {
    return;
  }
  view.tick();
  if (mode !== 'live' || failing) {
    refresher.poke();
  }
  if (failing) {
    showState();
  }
}, pollEvery);
setInterval(() => document.hidden || checker.poke(), checkEvery);
route();
