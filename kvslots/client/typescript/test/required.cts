// A CommonJS module has the same types. The compiler checks it; package.test.ts runs such a module.
import kvslots = require("kvslots");

const borrow = (pool: kvslots.Pool): Promise<kvslots.Slot> => pool.borrow({ ttl: 1 });
const isFull = (error: unknown): error is kvslots.NoSlotError => error instanceof kvslots.NoSlotError;

export = { borrow, isFull };
