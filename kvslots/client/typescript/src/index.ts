export { Client, type ClientOptions } from "./client.js";
export * from "./errors.js";
export type { EventOptions, EventType, PoolEventOptions, SlotEvent } from "./events.js";
export type { Body, How, Lease } from "./lease.js";
export type { Lock } from "./lock.js";
export type { TakeOptions } from "./options.js";
export type { Pool, PoolState, Slot } from "./pool.js";
export type { Holder, Waiter } from "./resource.js";
