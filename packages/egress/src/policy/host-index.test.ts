import { describe, expect, it } from 'vitest'
import { indexHosts } from './host-index.ts'

describe('an index of hosts', () => {
  it('finds every pattern that matches, exact ones and wildcards', () => {
    const index = indexHosts([
      ['a.example.com', 1],
      ['*.example.com', 2],
      ['a.*.example.com', 3],
      ['A.Example.com', 4],
      ['*', 5],
      ['b.example.com', 6],
      ['*.example.org', 7],
      ['example.*', 8],
    ])
    expect(index.find('a.example.com').toSorted()).toEqual([1, 2, 4, 5])
    expect(index.find('a.b.example.com').toSorted()).toEqual([2, 3, 5])
    expect(index.find('example.com').toSorted()).toEqual([5, 8])
    expect(index.find('other.net')).toEqual([5])
  })

  it('matches no address with a wildcard', () => {
    const index = indexHosts([
      ['*', 1],
      ['*.0.0.1', 2],
      ['127.0.0.?', 3],
      ['127.0.0.1', 4],
      ['[0:0::1]', 5],
    ])
    expect(index.find('127.0.0.1')).toEqual([4])
    expect(index.find('::1')).toEqual([5])
  })

  it('ignores a pattern that no host can have', () => {
    const index = indexHosts([
      ['127.1', 1],
      ['', 2],
    ])
    expect(index.find('127.0.0.1')).toEqual([])
    expect(index.find('')).toEqual([])
  })
})
