/** A mistake in the use of the command line. It becomes a USAGE of the contract where it is told; the table is not loaded before. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
  readonly next: string | undefined

  constructor(issue: string, next?: string) {
    super(issue)
    this.next = next
  }
}
