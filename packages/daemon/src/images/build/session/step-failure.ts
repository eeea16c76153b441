// A step that cannot be done because of the Dockerfile, the files or the output of a program. The build reports it with the step.

export class StepFailure extends Error {
  override readonly name = 'StepFailure'
  readonly next: string | undefined
  readonly exitCode: number | null

  constructor(message: string, next?: string, exitCode: number | null = null, options?: ErrorOptions) {
    super(message, options)
    this.next = next
    this.exitCode = exitCode
  }
}
