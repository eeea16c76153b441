// The log entry and the metrics of one request or connection: exactly one decision for each.
import type { EntryFields } from '../log/entry.ts'
import { redactorOf } from '../secrets/redact.ts'
import type { LiveSession } from '../sessions/session.ts'
import type { ExchangeContext } from './context.ts'

/** What will be one entry of the network log. */
export interface Decision {
  /** Facts that become known on the way. */
  note(fields: Partial<EntryFields>): void
  /** Writes the entry. Later calls do nothing. */
  log(decision: 'allowed' | 'blocked' | 'error', fields?: Partial<EntryFields>): void
}

export function beginDecision(
  context: ExchangeContext,
  session: LiveSession,
  first: EntryFields & { readonly host: string },
): Decision {
  const begun = performance.now()
  let fields: EntryFields = first
  let isLogged = false
  return {
    note(more) {
      fields = { ...fields, ...more }
    },
    log(decision, more = {}) {
      if (isLogged) return
      isLogged = true
      const entry: EntryFields = { ...fields, ...more, decision, duration_ms: Math.round((performance.now() - begun) * 10) / 10 }
      addRedacted(session, entry)
      context.metrics.count(first.host, decision, entry.bytes_sent ?? 0, entry.bytes_received ?? 0)
    },
  }
}

/** SECURITY: a real value can be in a query that a program was tricked into sending, or in the message of a server. */
export function addRedacted(session: LiveSession, entry: EntryFields): void {
  const redactor = redactorOf(session.settings.secrets)
  const clean = (text: string | null | undefined) => (text && redactor ? redactor.redactText(text) : text)
  session.log.add({ ...entry, url: clean(entry.url), reason: clean(entry.reason) })
}
