import fc from 'fast-check'
import { expect, test } from 'vitest'
import { trackInputModes } from './input-modes.ts'

const resetsAfter = (...pieces: string[]) => {
  const modes = trackInputModes()
  for (const piece of pieces) modes.note(Buffer.from(piece, 'latin1'))
  return modes.resets()
}

test('modes that a program left on are switched off, and others are not touched', () => {
  expect(resetsAfter('\x1b[?1049h\x1b[?1000;1006h\x1b[?25l')).toBe('\x1b[?1049l\x1b[?1000l\x1b[?1006l\x1b[?25h')
  expect(resetsAfter('\x1b[?1h\x1b[?2004h', '\x1b[?1;2004l\x1b[?25l\x1b[?25h')).toBe('')
  expect(resetsAfter('\x1b[?7h\x1b[?12l\x1b[31mtext')).toBe('')
})

test('the keyboard modes of xterm and kitty are reset', () => {
  expect(resetsAfter('\x1b[>4;2m\x1b[>1;3m')).toBe('\x1b[>4m\x1b[>1m')
  expect(resetsAfter('\x1b[>1u\x1b[>5u\x1b[<u')).toBe('\x1b[<1u')
  expect(resetsAfter('\x1b[>1u\x1b[<1u')).toBe('')
  expect(resetsAfter('\x1b[=5;1u')).toBe('\x1b[=0u')
})

test('8-bit control characters are recognised', () => {
  expect(resetsAfter('\x9b?1003h')).toBe('\x1b[?1003l')
  expect(resetsAfter('\xc2\x9b>4;1m')).toBe('\x1b[>4m')
})

test('the same modes are reset wherever the bytes are split', () => {
  const piece = fc.constantFrom('\x1b[', '\xc2\x9b', '?', '>', '<', '=', '1000', '1049', '25', '4', ';', 'h', 'l', 'm', 'u', 'x')
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 30 }), pieces => {
      const whole = pieces.join('')
      expect(resetsAfter(...whole)).toBe(resetsAfter(whole))
    }),
  )
})
