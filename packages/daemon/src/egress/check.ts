// What `sandglass doctor` says about the egress process.
import { connectControl, isUnheard } from './control.ts'
import { controlSocket } from './folders.ts'

export type EgressReport = { ok: boolean; detail: string }

/** Null if none runs: it is started when a session needs it. */
export async function checkEgress(dataDir: string): Promise<EgressReport | null> {
  try {
    const control = await connectControl(controlSocket(dataDir), { onEvent: () => undefined, onLost: () => undefined })
    try {
      const { sessions } = await control.request('list_sessions', {})
      const lost = sessions.filter(({ connected }) => !connected).length
      const detail = `pid ${control.hello.pid}, sessions: ${sessions.length}${lost > 0 ? `, ${lost} not connected` : ''}`
      return { ok: true, detail }
    } finally {
      control.close()
    }
  } catch (error) {
    if (isUnheard(error)) return null
    return { ok: false, detail: `it does not answer: ${(error as Error).message}` }
  }
}
