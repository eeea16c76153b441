const SIZE = /^(\d+(?:\.\d+)?)\s*(?:([mg])(?:i?b)?)?$/i

/**
 * A size in MiB, as every `*_mb` is: a bare number, or one with MB, MiB, GB or GiB. MB and MiB are the same here, and a GB is 1024 of them,
 * as memory is sold. Undefined for anything else.
 */
export function parseMegabytes(given: string): number | undefined {
  const [, number, unit = 'm'] = SIZE.exec(given.trim()) ?? []
  if (number === undefined) return undefined
  return Math.round(Number(number) * (unit.toLowerCase() === 'g' ? 1024 : 1))
}
