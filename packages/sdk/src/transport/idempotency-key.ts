/** 128 random bits. crypto.randomUUID is not there in a page that came over plain HTTP from another machine. */
export function newIdempotencyKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), byte => byte.toString(16).padStart(2, '0')).join('')
}
