import { Readable } from 'node:stream'
import { expect, test } from 'vitest'
import { readPrompt } from './prompt.ts'

const stdin = (text: string | Buffer) => Readable.from([Buffer.from(text)])

test.each([
  ['-p', 'fix it', [], '', 'fix it'],
  ['-p -', '-', [], 'from\nstdin\n', 'from\nstdin'],
  ['-', undefined, ['-'], 'from stdin\r\n', 'from stdin'],
  ['10,000 characters outside the BMP', '-', [], '😀'.repeat(10_000), '😀'.repeat(10_000)],
])('a prompt comes from %s', async (_what, flag, args, input, expected) => {
  expect(await readPrompt(flag, args, stdin(input))).toBe(expected)
})

test('without -p and - there is no prompt', async () => {
  expect(await readPrompt(undefined, [], stdin('unread'))).toBeUndefined()
})

test.each([
  ['an empty one', '', [], '', 'is empty'],
  ['an empty stdin', '-', [], '\n', 'is empty'],
  ['10,001 characters', 'x'.repeat(10_001), [], '', 'has 10001 characters'],
  ['10,001 characters on stdin', '-', [], 'x'.repeat(10_001), 'has 10001 characters'],
  ['a megabyte on stdin', '-', [], 'x'.repeat(1_000_000), 'has more than 10000 characters'],
  ['bytes that are no text', '-', [], Buffer.from([0xff, 0xfe]), 'not UTF-8'],
  ['NUL', '-', [], 'a\0b', 'NUL'],
  ['two prompts', 'fix', ['-'], '', 'given twice'],
  ['an argument', undefined, ['fix it'], '', 'unexpected argument fix it'],
])('%s is refused', async (_what, flag, args, input, issue) => {
  await expect(readPrompt(flag, args, stdin(input))).rejects.toThrow(issue)
})
