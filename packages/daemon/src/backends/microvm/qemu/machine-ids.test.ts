import { describe, expect, it } from 'vitest'
import { MachineIds } from './machine-ids.ts'

const ids = { first: 0x0ff0_0000, count: 65_536, isRoots: true }

describe('the user id of QEMU', () => {
  it('differs between daemons on one host', () => {
    const [one, two] = [new MachineIds('/var/lib/one'), new MachineIds('/var/lib/two')]
    expect(one.claim('a', ids, [])).not.toBe(two.claim('a', ids, []))
  })

  it('is not the id of any process on this host', () => {
    const own = process.getuid?.() ?? 0
    expect(() => new MachineIds('/d').claim('a', { first: own - 2, count: 4, isRoots: true }, [])).toThrow('are taken')
    expect(() => new MachineIds('/d').claim('a', { first: own - 3, count: 4, isRoots: true }, [])).toThrow('are taken')
  })

  it('is unique for each machine until none is left', () => {
    const few = { ...ids, count: 10 }
    const machines = new MachineIds('/d')
    const claimed = ['a', 'b', 'c'].map(id => machines.claim(id, few, [ids.first + 2]))
    expect(claimed.toSorted()).toEqual([4, 6, 8].map(i => ids.first + i))
    expect(() => machines.claim('d', few, [ids.first + 2])).toThrow('are taken')
    machines.release('b')
    expect(machines.claim('d', few, [ids.first + 2])).toBe(claimed[1])
  })
})
