export { Client, type ClientOptions } from "./client.js";
export * from "./errors.js";
export type { EventOptions, EventType, PoolEventOptions, SlotEvent } from "./events.js";
export type { Lease } from "./lease.js";
export type { Lock } from "./lock.js";
export type { Pool, PoolState, Slot, TakeOptions } from "./pool.js";
export type { Holder, Waiter } from "./resource.js";
