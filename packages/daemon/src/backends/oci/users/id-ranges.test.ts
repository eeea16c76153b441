import { describe, expect, it } from 'vitest'
import { fullPool, IdSlots, mappedPool, outsideId } from './id-ranges.ts'

describe('id ranges', () => {
  it('of root do not overlap and end below the last id', () => {
    const pool = fullPool()
    const [first] = pool.ranges(0)
    const [second] = pool.ranges(1)
    const [last] = pool.ranges(pool.slots - 1)
    expect(first).toEqual({ inside: 0, outside: 0x1000_0000, size: 65_536 })
    expect(second?.outside).toBe(0x1001_0000)
    expect((last?.outside ?? 0) + 65_536).toBeLessThanOrEqual(0xffff_ffff)
  })

  it('of an ordinary user are mapped sub-ids, without the id of the daemon', () => {
    const map = '         0       1001          1\n         1     100000      65536\n'
    const pool = mappedPool(map, map)
    expect(pool.slots).toBe(63)
    expect(pool.ranges(0)).toEqual([
      { inside: 0, outside: 1, size: 1023 },
      { inside: 65_534, outside: 1024, size: 1 },
    ])
    expect(outsideId(pool.ranges(1), 1000)).toBe(1025 + 1000)
    expect(outsideId(pool.ranges(1), 65_534)).toBe(2048)
    expect(() => outsideId(pool.ranges(1), 5000)).toThrow('not mapped')
  })

  it('are empty without sub-ids', () => {
    expect(mappedPool('0 1001 1', '0 1001 1').slots).toBe(0)
  })

  it('are assigned to one session at a time until none is left', () => {
    const slots = new IdSlots({ slots: 3, ranges: () => [] }, '/data')
    slots.claim(1)
    const taken = [slots.take(), slots.take()]
    expect(taken.toSorted()).toEqual([0, 2])
    expect(slots.take()).toBeNull()
    slots.release(1)
    expect(slots.take()).toBe(1)
  })

  it('are announced by next(), and take() returns the announced one unless it was claimed', () => {
    const slots = new IdSlots({ slots: 4, ranges: () => [] }, '/data')
    const first = slots.take() ?? -1
    const told = slots.next() ?? -1
    slots.release(first)
    expect(slots.take()).toBe(told)
    const claimed = slots.next() ?? -1
    slots.claim(claimed)
    expect(slots.take()).not.toBe(claimed)
  })
})
