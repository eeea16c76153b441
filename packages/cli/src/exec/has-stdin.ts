/** A terminal or /dev/null has nothing to pass on; a closed stdin cannot be looked at. */
export function hasStdin(): boolean {
  try {
    const stat = process.getBuiltinModule('node:fs').fstatSync(0)
    return stat.isFIFO() || stat.isFile() || stat.isSocket()
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EBADF') return false
    throw error
  }
}
