// List prices of models, for agents that report tokens only. A model that is missing has no known price; budgets are refused for it.
// Version of the table: the model catalogue of opencode 1.18.33.
import type { Usage } from '@sandglass/contract'

/** USD per million tokens. */
export type Price = { input: number; cachedInput: number; cacheWrite: number; output: number }

/** Takes names with and without the provider before a slash. Prices are those of requests below the provider's limit for long contexts. */
export function priceOf(model: string): Price | null {
  const plain = model.replace(/^(anthropic|openai)\//, '')
  const row = Object.hasOwn(PRICES, plain) ? PRICES[plain] : undefined
  if (row === undefined) return null
  const [input, cachedInput, cacheWrite, output] = row
  return { input, cachedInput, cacheWrite, output }
}

export function costOf(usage: Usage, price: Price): number {
  const microDollars =
    usage.input_tokens * price.input +
    usage.cache_read_input_tokens * price.cachedInput +
    usage.cache_creation_input_tokens * price.cacheWrite +
    usage.output_tokens * price.output
  return microDollars / 1_000_000
}

/** Input, cached input, input that is written to the cache, output. Where writing has no price of its own, it is that of input. */
const PRICES: Readonly<Record<string, readonly [number, number, number, number]>> = {
  'claude-fable-5': [10, 1, 12.5, 50],
  'claude-fable-5-1': [10, 0.25, 12.5, 50],
  'claude-haiku-4-5': [1, 0.1, 1.25, 5],
  'claude-opus-4-5': [5, 0.5, 6.25, 25],
  'claude-opus-4-6': [5, 0.5, 6.25, 25],
  'claude-opus-4-7': [5, 0.5, 6.25, 25],
  'claude-opus-4-8': [5, 0.5, 6.25, 25],
  'claude-opus-5': [5, 0.5, 6.25, 25],
  'claude-opus-5-5': [4, 0.2, 5, 20],
  'claude-sonnet-4-5': [3, 0.3, 3.75, 15],
  'claude-sonnet-4-6': [3, 0.3, 3.75, 15],
  'claude-sonnet-5': [2, 0.2, 2.5, 10],
  'gpt-4.1': [2, 0.5, 2, 8],
  'gpt-4.1-mini': [0.4, 0.1, 0.4, 1.6],
  'gpt-5': [1.25, 0.125, 1.25, 10],
  'gpt-5-mini': [0.25, 0.025, 0.25, 2],
  'gpt-5-nano': [0.05, 0.005, 0.05, 0.4],
  'gpt-5.1': [1.25, 0.125, 1.25, 10],
  'gpt-5.2': [1.75, 0.175, 1.75, 14],
  'gpt-5.3-codex': [1.75, 0.175, 1.75, 14],
  'gpt-5.4': [2.5, 0.25, 2.5, 15],
  'gpt-5.4-mini': [0.75, 0.075, 0.75, 4.5],
  'gpt-5.4-nano': [0.2, 0.02, 0.2, 1.25],
  'gpt-5.5': [5, 0.5, 5, 30],
  'gpt-5.6': [4, 0.4, 5, 20],
  'gpt-5.6-luna': [0.2, 0.02, 0.25, 1.2],
  'gpt-5.6-sol': [4, 0.4, 5, 20],
  'gpt-5.6-terra': [2, 0.2, 2.5, 12],
  'gpt-6-astra': [10, 1, 12.5, 50],
  'gpt-6-luna': [0.1, 0.01, 0.125, 0.5],
  'gpt-6-sol': [2, 0.2, 2.5, 10],
}
