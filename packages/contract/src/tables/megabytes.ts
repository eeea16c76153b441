// Sizes in MiB, as people write them.
const SIZE = /^(\d+(?:\.\d+)?)\s*(?:([mg])(?:i?b)?)?$/i

/** Parses a size in MiB: a number alone, or one with MB, MiB, GB or GiB. MB means MiB and GB means 1024 MiB. Undefined for anything else. */
export function parseMegabytes(given: string): number | undefined {
  const [, number, unit = 'm'] = SIZE.exec(given.trim()) ?? []
  if (number === undefined) return undefined
  return Math.round(Number(number) * (unit.toLowerCase() === 'g' ? 1024 : 1))
}
