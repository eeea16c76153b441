// The one class of errors, and its form on the wire.
import { ERRORS, type ErrorCode, type ErrorDetail, type ErrorRow } from '../errors.ts'

/** An error on the wire: the field `error` of a reply. */
export type WireError = { code: string; message: string; hint?: string; detail?: unknown; request_id?: string }

/** Equal in every copy of this file: the package of the SDK contains its own copy, and a program may load both. */
const BRAND = Symbol.for('sandglass.error')

/** Every expected failure, on both sides of the wire. */
export class SandglassError<C extends ErrorCode = ErrorCode> extends Error {
  readonly code: C
  readonly detail: ErrorDetail<C>
  readonly requestId: string | undefined

  /** True also for errors of another copy of this class. */
  static override [Symbol.hasInstance](value: unknown): boolean {
    return typeof value === 'object' && value !== null && BRAND in value
  }

  constructor(code: C, detail: ErrorDetail<C>, options: { cause?: unknown; message?: string; requestId?: string } = {}) {
    const row: ErrorRow = ERRORS[code]
    super(options.message ?? row.text(detail), options.cause === undefined ? undefined : { cause: options.cause })
    this.name = 'SandglassError'
    this.code = code
    this.detail = detail
    this.requestId = options.requestId
    // Not enumerable, so that it does not show in a printed error.
    Object.defineProperty(this, BRAND, { value: true })
  }

  get hint(): string | undefined {
    const row: ErrorRow = ERRORS[this.code]
    return typeof row.hint === 'function' ? row.hint(this.detail ?? {}) : row.hint
  }

  get httpStatus(): number {
    return ERRORS[this.code].http
  }

  get exitCode(): number {
    return ERRORS[this.code].exit
  }

  is<D extends ErrorCode>(code: D): this is SandglassError<D> {
    return (this.code as ErrorCode) === code
  }

  /** The same error with more detail. Its text is made from the new detail, unless `message` is given. */
  with(detail: Partial<ErrorDetail<C>>, message?: string): SandglassError<C> {
    const { requestId } = this
    return new SandglassError<C>(this.code, { ...this.detail, ...detail }, { cause: this, message, requestId })
  }

  toWire(requestId?: string): WireError {
    return {
      code: this.code,
      message: this.message,
      hint: this.hint,
      detail: this.detail,
      request_id: requestId ?? this.requestId,
    }
  }

  /** Rebuilds the error of the other side. An unknown code becomes INTERNAL with the same message. */
  static fromWire(wire: WireError): SandglassError {
    const known = Object.hasOwn(ERRORS, wire.code)
    const code = known ? (wire.code as ErrorCode) : 'INTERNAL'
    const detail = (known ? wire.detail : { message: wire.message }) as ErrorDetail<ErrorCode>
    return new SandglassError(code, detail, { message: wire.message, requestId: wire.request_id })
  }
}
