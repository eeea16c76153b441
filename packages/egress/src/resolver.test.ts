import { describe, expect, it } from 'vitest'
import { createResolver, type Lookup } from './resolver.ts'

function fixture(answer: (host: string) => Promise<{ address: string; family: number }[]>) {
  const asked: string[] = []
  let now = 0
  const find: Lookup = async host => {
    asked.push(host)
    return await answer(host)
  }
  return { asked, pass: (ms: number) => (now += ms), resolver: createResolver(find, () => now) }
}

describe('a name', () => {
  it('is looked up once for all who ask at the same time, and again when the answer is old', async () => {
    const { resolver, asked, pass } = fixture(async () => [{ address: '192.0.2.1', family: 4 }])
    const answers = await Promise.all([resolver.resolve('a', 'x.example'), resolver.resolve('b', 'x.example')])
    expect(answers[0]).toEqual({ kind: 'found', addresses: [{ address: '192.0.2.1', family: 4 }] })
    expect(asked).toHaveLength(1)
    pass(60_000)
    await resolver.resolve('a', 'x.example')
    expect(asked).toHaveLength(2)
  })

  it('that does not exist is told apart from a lookup that failed, which is not remembered', async () => {
    const { resolver, asked } = fixture(async host => {
      throw Object.assign(new Error('no'), { code: host === 'gone.example' ? 'ENOTFOUND' : 'EAI_AGAIN' })
    })
    expect(await resolver.resolve('a', 'gone.example')).toEqual({ kind: 'not-found' })
    expect(await resolver.resolve('a', 'slow.example')).toEqual({ kind: 'failed', reason: 'EAI_AGAIN' })
    await resolver.resolve('a', 'slow.example')
    expect(asked.filter(host => host === 'slow.example')).toHaveLength(2)
  })

  it('that is an address is not looked up', async () => {
    const { resolver, asked } = fixture(async () => [])
    expect(await resolver.resolve('a', '2001:db8::1')).toEqual({
      kind: 'found',
      addresses: [{ address: '2001:db8::1', family: 6 }],
    })
    expect(asked).toEqual([])
  })
})

it('a session with many slow lookups leaves threads to the others', async () => {
  const release: (() => void)[] = []
  const { resolver, asked } = fixture(async host => {
    if (host.startsWith('slow')) await new Promise<void>(resolve => release.push(resolve))
    return [{ address: '192.0.2.1', family: 4 }]
  })
  const slow = Array.from({ length: 20 }, (_, i) => resolver.resolve('flood', `slow${i}.example`))
  expect(await resolver.resolve('other', 'quick.example')).toMatchObject({ kind: 'found' })
  expect(asked.filter(host => host.startsWith('slow'))).toHaveLength(4)
  const shared = resolver.resolve('other', 'slow19.example')
  await expect.poll(() => asked).toContain('slow19.example')
  const timer = setInterval(() => release.shift()?.(), 1)
  expect(await Promise.all([...slow, shared])).toHaveLength(21)
  clearInterval(timer)
})
