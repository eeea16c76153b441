import { expect, test } from 'vitest'
import { aRun } from '../testing/run.fixture.ts'
import type { RunEnd } from './adapter.ts'
import { conclude, type Findings, NOTHING_FOUND } from './outcome.ts'

const ENDED: RunEnd = { exitCode: 0, timedOut: false, wasStopped: false, stderr: '', limitHit: null }
const of = (end: Partial<RunEnd>, found: Partial<Findings> = {}) =>
  conclude('claude', aRun(), { ...ENDED, ...end }, { ...NOTHING_FOUND, ...found })
const failure = (text: string) => ({ failure: { text, status: null, reason: null } })

test.each<[string, Partial<RunEnd>, Partial<Findings>, string, string]>([
  [
    'a time limit wins over everything',
    { timedOut: true, wasStopped: true, exitCode: 143 },
    failure('Prompt is too long'),
    'TIMEOUT',
    'timeout',
  ],
  ['a limit wins over the stop by which it is kept', { wasStopped: true, limitHit: 'budget' }, {}, 'CONTAINER_FAILED', 'budget'],
  ['a stop', { wasStopped: true, exitCode: 143 }, {}, 'CONTAINER_FAILED', 'stopped'],
  ['exit 0 with a result', {}, { hasResult: true }, 'SUCCESS', 'completed'],
  ['exit 0 with nothing', {}, {}, 'CONTAINER_FAILED', 'no_result'],
  ['text that quotes an error', {}, { responseText: 'API Error: 401' }, 'SUCCESS', 'completed'],
  ['exit 0 with an error result', {}, { hasResult: true, ...failure('API Error: 400 bad') }, 'SESSION_CORRUPTED', 'bad_request'],
  ['error output of the agent', { exitCode: 1, stderr: 'API Error: 401 no' }, {}, 'SESSION_CORRUPTED', 'auth'],
  [
    'a failed request wins over its text',
    { exitCode: 1 },
    failure('API Error: 429 too many tokens per minute'),
    'SESSION_CORRUPTED',
    'rate_limited',
  ],
  [
    'an account without credit',
    { exitCode: 1 },
    failure('API Error: 400 Your credit balance is too low'),
    'SESSION_CORRUPTED',
    'auth',
  ],
  ['a model that egress cannot reach', { exitCode: 1 }, failure('API Error: 502 no'), 'CONTAINER_FAILED', 'model_unreachable'],
  [
    'a model that the policy does not allow',
    { exitCode: 1 },
    failure('API Error: 403 {"error":"blocked_by_network_allowlist"}'),
    'CONTAINER_FAILED',
    'model_unreachable',
  ],
  ['memory', { exitCode: 137, limitHit: 'memory' }, {}, 'CONTAINER_FAILED', 'out_of_memory'],
  [
    'a tool that was killed for memory is no failure of the agent',
    { limitHit: 'memory' },
    { hasResult: true },
    'SUCCESS',
    'completed',
  ],
  ['disk', { exitCode: 1, stderr: 'ENOSPC: no space left on device, write' }, {}, 'CONTAINER_FAILED', 'disk_full'],
  ['a signal', { exitCode: null }, {}, 'CONTAINER_FAILED', 'crashed'],
  ['any other exit code', { exitCode: 2, stderr: 'what' }, {}, 'CONTAINER_FAILED', 'crashed'],
])('%s', (_title, end, found, outcome, reason) => {
  expect(of(end, found)).toMatchObject({ outcome, reason })
})

test('a message quotes the last lines of the error output, without a key', () => {
  const stderr = `${'noise\n'.repeat(50)}Incorrect API key provided: sk-ant-api03-abcdefghijklmnop. Bearer abc.def`
  const { errorMessage } = of({ exitCode: 1, stderr })
  expect(errorMessage).toContain('Incorrect API key provided: [key]')
  expect(errorMessage).toContain('Bearer [key]')
  expect(errorMessage?.match(/noise/g)?.length).toBe(4)
})

test('a message is bounded', () => {
  expect(of({ exitCode: 1 }, failure('x'.repeat(1_000_000))).errorMessage?.length).toBeLessThan(1500)
})
