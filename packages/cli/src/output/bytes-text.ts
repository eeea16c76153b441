// Sizes for people.
const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB']

/** 12.3 MiB */
export function bytesText(bytes: number): string {
  let value = bytes
  let unit = 0
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024
    unit++
  }
  return `${unit === 0 ? value : value.toFixed(1)} ${UNITS[unit]}`
}
