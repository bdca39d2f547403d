// @ts-check

/** Coalesces changes: the first one has the page read at once, and those after it once a second. */
export class Refresher {
  /**
   * @param {() => Promise<void>} read must not throw
   * @param {number} [gap] the least time between the beginnings of two readings, in milliseconds
   */
  constructor(read, gap = 1000) {
    this.read = read;
    this.gap = gap;
    this.began = -Infinity;
    this.running = false;
    this.again = false;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.timer = undefined;
  }

  /** Reads soon, since something has changed. */
  poke() {
    if (this.running) {
      this.again = true;
    } else {
      this.timer ??= setTimeout(() => this.run(), Math.max(0, this.began + this.gap - performance.now()));
    }
  }

  /** Reads now, since the user waits for it. */
  now() {
    this.began = -Infinity;
    clearTimeout(this.timer);
    this.timer = undefined;
    this.poke();
  }

  stop() {
    clearTimeout(this.timer);
    this.timer = undefined;
    this.again = false;
  }

  async run() {
    this.timer = undefined;
    this.running = true;
    this.began = performance.now();
    await this.read();
    this.running = false;
    if (this.again) {
      this.again = false;
      this.poke();
    }
  }
}
