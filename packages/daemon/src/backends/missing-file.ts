/** True for the error of a file or process that is not there. */
export function isMissing(error: unknown): boolean {
  return (
    error instanceof Error && 'code' in error && (error.code === 'ENOENT' || error.code === 'ESRCH' || error.code === 'ENOTDIR')
  )
}
