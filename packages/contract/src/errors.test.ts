import { describe, expect, it, vi } from 'vitest'
import { SandglassError } from './errors/sandglass-error.ts'
import { ERRORS, type ErrorCode } from './errors.ts'
import { FINAL_STATES } from './tables/lifecycles.ts'

const CODES = Object.keys(ERRORS) as ErrorCode[]

describe('the error table', () => {
  it.each(CODES)('%s has a real HTTP status and one of the CLI exit codes', code => {
    expect(ERRORS[code].http).toBeGreaterThanOrEqual(400)
    expect(ERRORS[code].http).toBeLessThan(600)
    expect([1, 2, 3, 4, 5]).toContain(ERRORS[code].exit)
  })

  it.each(CODES.filter(c => ERRORS[c].http === 404))('%s (HTTP 404) has exit code 4', code => {
    expect(ERRORS[code].exit).toBe(4)
  })

  it('survives the wire with code, text, detail, hint and request id', () => {
    const sent = new SandglassError('SESSION_NOT_FOUND', { id: 'sess_x' })
    const got = SandglassError.fromWire(JSON.parse(JSON.stringify(sent.toWire('req_1'))))
    expect(got.is('SESSION_NOT_FOUND') && got.detail.id).toBe('sess_x')
    expect(got).toMatchObject({ message: 'no session sess_x', hint: sent.hint, requestId: 'req_1', httpStatus: 404, exitCode: 4 })
  })

  it('UNSUPPORTED has the hint in its detail, or none', () => {
    expect(new SandglassError('UNSUPPORTED', { what: 'two mounts at /x' }).hint).toBeUndefined()
    expect(new SandglassError('UNSUPPORTED', { what: 'a bridge', next: 'set allow_bridge' }).hint).toBe('set allow_bridge')
  })

  it('START_FAILED names the session and the commands that show its boot log and start it again', () => {
    const error = new SandglassError('START_FAILED', { id: 'sess_x', name: 'demo', why: 'it panicked' })
    expect(error.message).toBe('session demo failed to start: it panicked')
    expect(error.hint).toMatch(/`sandglass logs demo --boot`.*`sandglass start demo`/)
  })

  it('IMAGE_INVALID can name an archive, and IMAGE_BUILD_FAILED has a hint if a step had no network', () => {
    const archive = new SandglassError('IMAGE_INVALID', { image: 'the archive', issue: 'it is no archive of images' })
    expect(archive.message).toBe('the archive cannot be used: it is no archive of images')
    const failed = (...output: string[]) =>
      new SandglassError('IMAGE_BUILD_FAILED', {
        image: 'a',
        step: 1,
        steps: 1,
        instruction: 'RUN',
        exit_code: 1,
        why: '',
        output,
      }).hint
    expect(failed("Err: Temporary failure resolving 'nowhere'")).toContain('images.build_network')
    expect(failed('make: *** failed')).toContain('fix the step')
  })

  it('a code from a newer daemon becomes INTERNAL and keeps its message', () => {
    const got = SandglassError.fromWire({ code: 'FROM_THE_FUTURE', message: 'something newer' })
    expect(got).toMatchObject({ code: 'INTERNAL', message: 'something newer', exitCode: 1 })
  })

  it('a code such as toString, which every object has as a property, becomes INTERNAL', () => {
    expect(SandglassError.fromWire({ code: 'toString', message: 'odd' }).code).toBe('INTERNAL')
  })

  it.each([
    ['paused', 'it is paused', '`sandglass resume demo`'],
    ['stopped', 'it is stopped', '`sandglass start demo`'],
    ['failed', 'it is failed', '`sandglass start demo`'],
    ['timeout', 'it has ended (timeout)', 'create a new one with `sandglass new`'],
  ])('a command in a session that is %s fails with a hint that helps', (state, text, hint) => {
    const error = new SandglassError('WRONG_STATE', { id: 'sess_x', name: 'demo', state, event: 'exec in' })
    expect(error).toMatchObject({ message: `cannot exec in demo: ${text}`, hint })
    expect(SandglassError.fromWire(JSON.parse(JSON.stringify(error.toWire()))).hint).toBe(hint)
  })

  it.each(FINAL_STATES)('the message for a session that is %s says that it has ended', state => {
    expect(new SandglassError('WRONG_STATE', { id: 'sess_x', state, event: 'start' }).message).toBe(
      `cannot start sess_x: it has ended (${state})`,
    )
  })

  it('is an instance of another copy of its class, and other values are not', async () => {
    vi.resetModules()
    const other = (await import('./errors/sandglass-error.ts')).SandglassError
    const error: unknown = new other('SESSION_NOT_FOUND', { id: 'sess_x' })
    expect(other).not.toBe(SandglassError)
    expect(error instanceof SandglassError && error.is('SESSION_NOT_FOUND') && error.detail.id).toBe('sess_x')
    expect([new Error('plain'), { code: 'INTERNAL' }, null, 'INTERNAL'].some(value => value instanceof SandglassError)).toBe(
      false,
    )
  })

  it('keeps the cause', () => {
    const cause = new Error('first')
    expect(new SandglassError('INTERNAL', {}, { cause }).cause).toBe(cause)
  })
})
