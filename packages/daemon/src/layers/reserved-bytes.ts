/** What the daemon itself may need, and what is written between two looks. */
const OWN_BYTES = 64 * 1024 * 1024

/** Bytes of the host's disk that images leave alone: those that the sessions' disks may still take, of which each was promised so many. */
export function reservedBytes(promised: Iterable<number>): number {
  return [...promised].reduce((sum, bytes) => sum + bytes, OWN_BYTES)
}
