// The working directory as a shell reports it. SECURITY: a command can forge the report; a row and every list carry what is kept of it.
import { LIMITS } from '@sandglass/contract'

/** At most as long as a path may be; cut between characters. */
export function boundedCwd(cwd: string): string {
  const max = LIMITS.path_bytes.max
  if (Buffer.byteLength(cwd) <= max) return cwd
  const bytes = Buffer.from(cwd.slice(0, max))
  let end = Math.min(max, bytes.length)
  while (end > 0 && ((bytes[end] ?? 0) & 0xc0) === 0x80) end--
  return bytes.toString('utf8', 0, end)
}
