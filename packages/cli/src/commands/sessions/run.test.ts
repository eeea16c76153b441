import { expect, test } from 'vitest'
import { optionsOf, parseInput } from '../../parser/parse.ts'
import { command } from './run.ts'

const flagsOf = (...argv: string[]) => parseInput(argv, optionsOf(command, argv)).flags

test('-t is the timeout of an agent, and the terminal of a program', () => {
  expect(flagsOf('-a', 'claude', '-t', '1h')).toEqual({ agent: ['claude'], timeout: '1h' })
  expect(flagsOf('-t', '--', 'agent', '-a', 'x')).toEqual({ tty: true })
  expect(flagsOf('--timeout', '1m', '--', 'x')).toEqual({ timeout: '1m' })
})

test('help names the flags of both forms', () => {
  expect(command.options).toMatchObject({
    agent: { short: 'a' },
    prompt: { short: 'p' },
    tty: { short: 't' },
    repo: {},
    keep: {},
  })
})
