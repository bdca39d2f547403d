import { test } from "node:test";

test("the examples of the README run", async () => {
  const program = "./examples/readme.js"; // which is made from the README
  await import(program);
});
