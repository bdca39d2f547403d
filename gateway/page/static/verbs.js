// @ts-check
// What operators do: they end leases, and take slots or whole pools out of service. Each is done
// after a confirmation that names what the user has clicked.

import { ask, Refusal } from './api.js';
import { byID, duration, element, isolated, nameOf, setText } from './format.js';

/** @typedef {import('./pool.js').PoolView} PoolView */
/** @typedef {{label: string, value: string, number?: [min: number, max: number]}} Field */

const maxReason = 64; // characters
const maxCount = 1_000_000;

/**
 * Shows the buttons of a pool, for what it is now.
 * @param {HTMLElement} target
 * @param {PoolView} view
 */
export function verbsOfPool(target, view) {
  const paused = !!view.pool?.paused;
  const key = `${paused} ${view.secret !== ''}`;
  if (target.dataset.key === key && target.firstChild) {
    return;
  }
  target.dataset.key = key;
  target.replaceChildren(
    paused
      ? button('Resume…', view, () => ({ title: 'Resume', text: 'Slots are lent again, first to the borrowers in line.', yes: 'Resume', method: 'PUT', path: '/pause', body: () => ({ out: false }) }))
      : button('Pause…', view, () => ({
          title: 'Pause', text: 'No slot is lent until it is resumed. Leases run to their ends, and borrowers wait.', yes: 'Pause',
          fields: [reason], method: 'PUT', path: '/pause', body: ([why]) => ({ out: true, reason: why }),
        })),
    button('Take a slot out…', view, () => ({
      title: 'Take a slot out of service', text: 'The slot is not lent until it is put back. A lease of it runs to its end.', yes: 'Take out',
      fields: [{ label: 'Slot', value: '0', number: [0, Math.max(0, (view.pool?.count ?? 1) - 1)] }, reason],
      method: 'PUT', path: ([position]) => `/positions/${Number(position)}`, body: ([, why]) => ({ out: true, reason: why }),
    })),
  );
  if (view.secret) { // only its UUID registers a pool
    target.append(button('Change the count…', view, () => ({
      title: 'Change the count', text: 'Leases of slots beyond a lower count run to their ends.', yes: 'Change',
      fields: [{ label: 'Count', value: String(view.pool?.count ?? 0), number: [0, maxCount] }],
      method: 'PUT', whole: 'l/self', headers: { 'Kvslots-Pool': view.secret },
      body: ([count]) => ({ count: Number(count), ...(view.pool?.name ? { name: view.pool.name } : {}) }),
    })));
  }
}

/**
 * Returns the buttons of a slot.
 * @param {PoolView} view
 * @param {import('./pool.js').Slot} slot
 */
export function verbsOfSlot(view, { position, lease, out }) {
  const buttons = [];
  if (lease) {
    const holder = isolated(lease.label) || 'its holder, who gave no label';
    buttons.push(button('Evict…', view, () => ({
      title: `End the lease of slot ${position}`,
      text: `The lease with the fence ${lease.fence}, of ${holder}, ends at once, and the slot is lent to the next borrower. The holder may run on for 5 s, or for ${duration(lease.expires_in_s)} if it reaches no gateway: check the fence where it writes.`,
      yes: 'End the lease', method: 'DELETE', path: `/leases/${position}?fence=${lease.fence}`,
    }), `Evict from slot ${position}`));
  }
  buttons.push(out === undefined
    ? button('Out…', view, () => ({
        title: `Take slot ${position} out of service`, text: 'The slot is not lent until it is put back. A lease of it runs to its end.', yes: 'Take out',
        fields: [reason], method: 'PUT', path: `/positions/${position}`, body: ([why]) => ({ out: true, reason: why }),
      }), `Take slot ${position} out of service`)
    : button('Put back…', view, () => ({
        title: `Put slot ${position} back`, text: 'The slot is lent again.', yes: 'Put back',
        method: 'PUT', path: `/positions/${position}`, body: () => ({ out: false }),
      }), `Put slot ${position} back`));
  return buttons;
}

/** @type {Field} */
const reason = { label: 'Reason', value: '' };

/**
 * What is asked, and what is sent if the user confirms it.
 * @typedef {object} Verb
 * @property {string} title
 * @property {string} text
 * @property {string} yes
 * @property {Field[]} [fields]
 * @property {string} method
 * @property {string | ((values: string[]) => string)} [path] below the pool's
 * @property {string} [whole] instead of path: all of it
 * @property {Record<string, string>} [headers]
 * @property {(values: string[]) => unknown} [body]
 */

/**
 * @param {string} text
 * @param {PoolView} view
 * @param {() => Verb} verb
 * @param {string} [label] for screen readers
 */
function button(text, view, verb, label) {
  const made = element('button', '', text);
  made.setAttribute('type', 'button');
  if (label) {
    made.setAttribute('aria-label', label);
  }
  made.addEventListener('click', () => confirm(view, verb()));
  return made;
}

/**
 * Asks the user, and does it. A refusal is shown in the dialog, which stays open.
 * @param {PoolView} view
 * @param {Verb} verb
 */
function confirm(view, verb) {
  const dialog = /** @type {HTMLDialogElement} */ (byID('confirm'));
  const form = /** @type {HTMLFormElement} */ (dialog.querySelector('form'));
  const wrong = byID('confirm-wrong');
  const yes = /** @type {HTMLButtonElement} */ (byID('confirm-yes'));
  setText(byID('confirm-title'), `${verb.title} of ${view.pool ? nameOf(view.pool) : view.hash}`);
  setText(byID('confirm-text'), verb.text);
  setText(yes, verb.yes);
  wrong.hidden = true;
  yes.disabled = false;
  const inputs = (verb.fields ?? []).map(newInput);
  byID('confirm-fields').replaceChildren(...inputs.map((input) => /** @type {HTMLElement} */ (input.parentElement)));
  form.onsubmit = async (event) => {
    event.preventDefault();
    yes.disabled = true;
    const values = inputs.map((input) => input.value.trim());
    const path = typeof verb.path === 'function' ? verb.path(values) : verb.path;
    try {
      await ask(verb.method, verb.whole ?? view.path + path, { body: verb.body?.(values), headers: verb.headers });
      dialog.close();
      view.onChange();
    } catch (error) {
      yes.disabled = false;
      wrong.hidden = false;
      setText(wrong, textOf(error));
    }
  };
  byID('confirm-no').onclick = () => dialog.close();
  dialog.showModal();
  (inputs[0] ?? byID('confirm-no')).focus();
}

/** @param {unknown} error */
function textOf(error) {
  if (!(error instanceof Refusal)) {
    return 'The gateway does not answer; it may have done this or not.';
  }
  switch (error.code) {
    case 'read_only':
      return 'This token may only read.';
    case 'other_holder':
    case 'not_held':
      return 'This lease has ended already. Nothing was changed.';
  }
  return `The gateway refuses: ${error.message}`;
}

/** @param {Field} field */
function newInput(field) {
  const label = element('label', '', `${field.label} `);
  const input = document.createElement('input');
  input.value = field.value;
  input.autocomplete = 'off';
  if (field.number) {
    input.type = 'number';
    [input.min, input.max] = field.number.map(String);
    input.required = true;
  } else {
    input.maxLength = maxReason;
  }
  label.append(input);
  return input;
}
