/** What nobody has used for so long, and can be made again, is removed. */
export const UNUSED_MS = 7 * 24 * 3600 * 1000
