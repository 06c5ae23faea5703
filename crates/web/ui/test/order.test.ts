// The order of the list of sessions.

import assert from "node:assert/strict"
import { test } from "node:test"
import { StableOrder } from "../src/core/order.ts"

const letters = (text: string) => [...text]

test("known rows keep their places, whatever the activity is", () => {
  const order = new StableOrder()
  assert.deepEqual(order.arrange(letters("abcd")), letters("abcd"))
  assert.deepEqual(order.arrange(letters("dcba")), letters("abcd"))
  assert.deepEqual(order.arrange(letters("dca")), letters("acd"), "a row that is gone leaves no gap")
  order.reset()
  assert.deepEqual(order.arrange(letters("dca")), letters("dca"))
})

test("new rows come first, last or before the row that they precede", () => {
  const order = new StableOrder()
  order.arrange(letters("abc"))
  assert.deepEqual(order.arrange(letters("ncba")), letters("nabc"), "a new session is on top, although another row is the latest")
  assert.deepEqual(order.arrange(letters("ncbaxy")), letters("nabcxy"), "an older page is at the end")
  assert.deepEqual(order.arrange(letters("nczbaxy")), letters("nazbcxy"))
})
