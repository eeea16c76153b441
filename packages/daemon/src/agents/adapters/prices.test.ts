import { expect, test } from 'vitest'
import { costOf, priceOf } from './prices.ts'

test('a price is found with and without the name of the provider', () => {
  expect(priceOf('openai/gpt-5.5')).toEqual(priceOf('gpt-5.5'))
  expect(priceOf('gpt-5.5')).toEqual({ input: 5, cachedInput: 0.5, cacheWrite: 5, output: 30 })
})

test.each(['gpt-unheard-of', '', 'constructor', '__proto__', 'somebody/gpt-5.5'])('the model %j has no price', model => {
  expect(priceOf(model)).toBeNull()
})

test('a million tokens of each kind cost the sum of the prices', () => {
  const million = 1_000_000
  const usage = {
    input_tokens: million,
    output_tokens: million,
    cache_read_input_tokens: million,
    cache_creation_input_tokens: million,
  }
  expect(costOf(usage, { input: 1, cachedInput: 2, cacheWrite: 4, output: 8 })).toBe(15)
})
