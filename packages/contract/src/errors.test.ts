import { describe, expect, it } from 'vitest'
import { ERRORS, type ErrorCode, SandglassError } from './errors.ts'

const CODES = Object.keys(ERRORS) as ErrorCode[]

describe('the error table', () => {
  it.each(CODES)('%s has a real HTTP status and one of the CLI exit codes', code => {
    expect(ERRORS[code].http).toBeGreaterThanOrEqual(400)
    expect(ERRORS[code].http).toBeLessThan(600)
    expect([1, 2, 3, 4, 5]).toContain(ERRORS[code].exit)
  })

  it.each(CODES.filter(c => ERRORS[c].http === 404))('%s is not found on the command line too', code => {
    expect(ERRORS[code].exit).toBe(4)
  })

  it('survives the wire with code, text, detail, hint and request id', () => {
    const sent = new SandglassError('SESSION_NOT_FOUND', { id: 'sess_x' })
    const got = SandglassError.fromWire(JSON.parse(JSON.stringify(sent.toWire('req_1'))))
    expect(got.is('SESSION_NOT_FOUND') && got.detail.id).toBe('sess_x')
    expect(got).toMatchObject({ message: 'no session sess_x', hint: sent.hint, requestId: 'req_1', httpStatus: 404, exitCode: 4 })
  })

  it('a code from a newer daemon becomes INTERNAL and keeps its message', () => {
    const got = SandglassError.fromWire({ code: 'FROM_THE_FUTURE', message: 'something newer' })
    expect(got).toMatchObject({ code: 'INTERNAL', message: 'something newer', exitCode: 1 })
  })

  it('a code that names something every object has is unknown all the same', () => {
    expect(SandglassError.fromWire({ code: 'toString', message: 'odd' }).code).toBe('INTERNAL')
  })

  it('keeps the cause', () => {
    const cause = new Error('first')
    expect(new SandglassError('INTERNAL', {}, { cause }).cause).toBe(cause)
  })
})
