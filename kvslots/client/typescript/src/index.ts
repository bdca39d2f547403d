export { Client, type ClientOptions } from "./client.js";
export * from "./errors.js";
export { Lease } from "./lease.js";
export { Lock } from "./lock.js";
export { Pool, Slot, type PoolState, type TakeOptions } from "./pool.js";
