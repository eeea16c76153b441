import { expect, test } from 'vitest'
import { oneArgument, parseInput, splitCommand, suggestion, unknownCommand } from './parse.ts'

const OPTIONS = { all: { type: 'boolean', about: '' }, env: { type: 'string', multiple: true, about: '' } } as const

test('global flags may come before and after the command', () => {
  expect(splitCommand(['--json', '--config', 'ls', 'rm', 'x', '-f'])).toEqual({
    name: 'rm',
    rest: ['--json', '--config', 'ls', 'x', '-f'],
  })
  expect(splitCommand(['--version'])).toEqual({ name: undefined, rest: ['--version'] })
  expect(splitCommand(['--', 'ls']).name).toBeUndefined()
})

test('words after -- are not parsed', () => {
  const input = parseInput(['box', '--all', '--', 'ls', '--all', '--', '-x'], OPTIONS)
  expect(input).toMatchObject({ args: ['box'], rest: ['ls', '--all', '--', '-x'], flags: { all: true } })
  expect(parseInput(['box'], OPTIONS).rest).toBeUndefined()
})

test('the error for an unknown flag names the nearest one, and never its value', () => {
  expect(() => parseInput(['--al'], OPTIONS)).toThrow('unknown flag --al; did you mean --all?')
  expect(() => parseInput(['--secret-key=abc'], OPTIONS)).toThrow(/^unknown flag --secret-key$/)
  expect(() => parseInput(['--env'], OPTIONS)).toThrow(/^--env needs a value$/)
  expect(() => parseInput(['--env', '--all'], OPTIONS)).toThrow(
    /^--env needs a value; write --env=VALUE for one that begins with -$/,
  )
  expect(() => parseInput(['--all=1'], OPTIONS)).toThrow(/^--all takes no value$/)
  expect(() => parseInput(['--no-al'], OPTIONS)).toThrow('did you mean --no-all?')
  expect(unknownCommand('exce').message).toBe('unknown command exce; did you mean exec?')
  expect(unknownCommand('frobnicate').message).toBe('unknown command frobnicate')
})

test('a value that is not a choice of its flag is refused, with the nearest choice', () => {
  const options = { backend: { type: 'string', choices: ['auto', 'oci', 'docker'], about: '' } } as const
  expect(parseInput(['--backend', 'oci'], options).flags.backend).toBe('oci')
  expect(() => parseInput(['--backend', 'dokcer'], options)).toThrow(
    /^--backend must be auto, oci or docker, not dokcer; did you mean docker\?$/,
  )
  expect(() => parseInput(['box', '--backend=OCI'], options)).toThrow('did you mean oci?')
  expect(() => parseInput(['--backend', 'podman'], options)).toThrow(/not podman$/)
})

test('a flag can be turned off with --no-', () => {
  expect(parseInput(['--no-all'], OPTIONS).flags.all).toBe(false)
})

test('a command that takes one name refuses none and several', () => {
  expect(() => oneArgument({ args: [], rest: undefined }, 'NAME')).toThrow('NAME is missing')
  expect(() => oneArgument({ args: ['a', 'b'], rest: undefined }, 'NAME')).toThrow(
    'unexpected argument b: the command takes one NAME',
  )
})

test('the suggestion is a similar word, or a word that begins the same', () => {
  expect(suggestion('ls', ['rm', 'cp'])).toBeUndefined()
  expect(suggestion('pasue', ['pause', 'resume'])).toBe('pause')
  expect(suggestion('insp', ['inspect', 'init'])).toBe('inspect')
})

test('commands of other tools are answered with our command', () => {
  for (const [word, command] of [
    ['list', 'ls'],
    ['top', 'stats'],
    ['delete', 'rm'],
    ['create', 'new'],
  ] as const)
    expect(unknownCommand(word).message).toBe(`unknown command ${word}; did you mean ${command}?`)
})
