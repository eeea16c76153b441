// A row of the table of errors. `text` takes the detail of the error, so that the detail is type-checked at every throw.

export type ErrorRow = {
  http: number
  exit: number
  // biome-ignore lint/suspicious/noExplicitAny: each row narrows its own detail; the table needs their union
  text: (detail: any) => string
  /** The next step; a function where it depends on the detail. */
  // biome-ignore lint/suspicious/noExplicitAny: as above
  hint?: string | ((detail: any) => string | undefined)
}

/** An error that needs no detail. */
export type Empty = Record<never, never>

/** How a running daemon gets a changed configuration. */
export const AFTER_A_CHANGE = 'after a change of the configuration, run `sandglass shutdown` and try again'
