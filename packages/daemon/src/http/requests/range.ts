// The Range header: one range of bytes. Anything else is ignored, as HTTP allows, and the whole file is sent.

export type Range = { offset: number; length?: number } | { last: number }

export function parseRange(header: string | undefined): Range | null {
  const [, first, last] = /^bytes=(\d{0,15})-(\d{0,15})$/.exec(header?.replaceAll(' ', '') ?? '') ?? []
  if (first === undefined || last === undefined || (first === '' && last === '')) return null
  if (first === '') return { last: Number(last) }
  if (last === '') return { offset: Number(first) }
  return Number(last) < Number(first) ? null : { offset: Number(first), length: Number(last) - Number(first) + 1 }
}
