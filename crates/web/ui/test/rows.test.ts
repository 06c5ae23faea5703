// Positions of rows: sums of known heights and estimates, equal to a plain computation.

import assert from "node:assert/strict"
import { test } from "node:test"
import { Rows } from "../src/core/rows.ts"
import { dice } from "./support.ts"

test("rows have the offsets of a plain sum after any changes", () => {
  for (let seed = 1; seed <= 200; seed++) {
    const roll = dice(seed)
    const rows = new Rows(100)
    let keys: string[] = []
    const heights = new Map<string, number>()
    for (let step = 0; step < 40; step++) {
      switch (roll.below(4)) {
        case 0:
          keys = [...keys, `k${seed} ${step}`]
          rows.set(keys)
          break
        case 1:
          keys = [...Array.from({ length: roll.below(5) }, (_, at) => `o${step} ${at}`), ...keys]
          rows.set(keys)
          break
        case 2:
          keys = keys.filter(() => roll.below(10) > 0)
          rows.set(keys)
          break
        default: {
          const key = keys[roll.below(keys.length)]
          if (key === undefined) break
          heights.set(key, roll.below(300))
          rows.measure(key, heights.get(key)!)
        }
      }
      let sum = 0
      keys.forEach((key, at) => {
        assert.equal(rows.offset(at), sum, `seed ${seed}, step ${step}, row ${at}`)
        assert.equal(rows.index(key), at)
        sum += heights.get(key) ?? 100
      })
      assert.equal(rows.total, sum)
    }
  }
})

test("a range contains every row that intersects it", () => {
  const rows = new Rows(10)
  rows.set(Array.from({ length: 100 }, (_, at) => String(at)))
  assert.deepEqual(rows.range(95, 124), [9, 13])
  assert.deepEqual(rows.range(-50, 5), [0, 1])
  assert.deepEqual(rows.range(5_000, 6_000), [99, 100])
  assert.deepEqual(new Rows(10).range(0, 100), [0, 0])
})

test("a row that grows at the end of a long list costs little", () => {
  const rows = new Rows(10)
  rows.set(Array.from({ length: 10_000 }, (_, at) => String(at)))
  assert.equal(rows.total, 100_000)
  for (let height = 0; height < 100_000; height++) {
    rows.measure("9999", height)
    assert.equal(rows.total, 99_990 + height)
  }
})
