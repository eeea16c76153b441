import { expect, it } from 'vitest'
import { parseChallenge } from './challenge.ts'

it('reads what a registry wants to see, also with several challenges and odd spelling', () => {
  expect(parseChallenge('Bearer realm="https://auth.x/token",service="x y",scope="repository:a/b:pull,push"')).toEqual({
    scheme: 'bearer',
    params: { realm: 'https://auth.x/token', service: 'x y', scope: 'repository:a/b:pull,push' },
  })
  expect(parseChallenge('BASIC realm="a \\"quoted\\" one"')).toEqual({ scheme: 'basic', params: { realm: 'a "quoted" one' } })
  expect(parseChallenge('Basic realm=x, Bearer realm="https://t", service=s')?.scheme).toBe('bearer')
  expect(parseChallenge('Basic')).toEqual({ scheme: 'basic', params: {} })
  expect(parseChallenge('Bearer service="no realm"')).toBeNull()
  expect(parseChallenge('Digest realm="x"')).toBeNull()
  expect(parseChallenge(undefined)).toBeNull()
})
