// @ts-check
// Small charts of what has happened in a pool since it was opened.

import { element, number, setText } from './format.js';

const bars = 60;
const perBar = 5; // seconds
const [width, height] = [240, 36];

const svg = 'http://www.w3.org/2000/svg';

/** A chart of the last five minutes, one bar for five seconds. */
export class Chart {
  /**
   * @param {string} title
   * @param {'sum' | 'max'} kind what a bar shows of its values
   * @param {(total: number) => string} describe
   */
  constructor(title, kind, describe = number) {
    this.kind = kind;
    this.describe = describe;
    /** @type {number[]} */
    this.values = new Array(bars).fill(0);
    this.at = clock(); // the bar of the last value
    this.begun = this.at;
    this.since = ` since ${new Date().toLocaleTimeString([], { hour: '2-digit', minute: '2-digit' })} `;
    this.title = title;
    this.element = element('figure', 'chart');
    this.total = element('strong');
    this.caption = element('span');
    const caption = element('figcaption');
    caption.append(this.caption, this.total);
    const drawing = document.createElementNS(svg, 'svg');
    drawing.setAttribute('viewBox', `0 0 ${width} ${height}`);
    drawing.setAttribute('preserveAspectRatio', 'none');
    drawing.setAttribute('aria-hidden', 'true');
    this.path = document.createElementNS(svg, 'path');
    drawing.append(this.path);
    this.element.append(caption, drawing);
    this.show();
  }

  /** @param {number} value */
  add(value) {
    this.advance();
    const last = this.values[bars - 1];
    this.values[bars - 1] = this.kind === 'sum' ? last + value : Math.max(last, value);
  }

  advance() {
    const steps = Math.min(clock() - this.at, bars);
    for (let i = 0; i < steps; i++) {
      this.values.shift();
      this.values.push(0);
    }
    this.at = clock();
  }

  show() {
    this.advance();
    const top = Math.max(...this.values, 1e-9);
    const step = width / bars;
    let path = '';
    this.values.forEach((value, i) => {
      if (value > 0) {
        path += `M${(i + 0.5) * step} ${height}V${(height - Math.max(2, (value / top) * (height - 2))).toFixed(1)}`;
      }
    });
    this.path.setAttribute('d', path);
    this.element.classList.toggle('without', path === '');
    setText(this.caption, this.title + (clock() - this.begun < bars ? this.since : ' in 5 min '));
    const total = this.kind === 'sum' ? this.values.reduce((a, b) => a + b, 0) : Math.max(...this.values);
    setText(this.total, path === '' ? 'none' : this.describe(total));
  }
}

const clock = () => Math.floor(performance.now() / 1000 / perBar);
