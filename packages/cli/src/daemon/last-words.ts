/**
 * Why a daemon ended, from the end of its log: what it said itself with the next step, the error that Node printed, or the message of the
 * last line of JSON. Stack lines are for the log.
 */
export function reasonIn(said: string): { why: string; next?: string } {
  const lines = said.split('\n').filter(line => line.trim() !== '')
  const own = lines.findLastIndex(line => line.startsWith(OWN))
  if (own >= 0) {
    const next = lines.slice(own + 1).find(line => line.startsWith(NEXT))
    const why = lines[own]?.slice(OWN.length) ?? ''
    return next === undefined ? { why } : { why, next: next.slice(NEXT.length) }
  }
  const thrown = lines.findLast(line => /^(Uncaught )?\w*Error\b.*: /.test(line))
  const last = thrown ?? lines.findLast(line => !/^(\s|[{}]|Node\.js v)/.test(line) || line.startsWith('{"'))
  return { why: last === undefined ? 'it ended without a word' : messageOf(last) }
}

const OWN = 'sandglass: '
const NEXT = '  next: '

function messageOf(line: string): string {
  try {
    const entry: { msg?: string; err?: { message?: string } } = JSON.parse(line)
    return entry.err?.message ?? entry.msg ?? line
  } catch {
    return line // not a log line
  }
}
