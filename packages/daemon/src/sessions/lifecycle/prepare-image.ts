// Prepares the image of a create or start, and shows what each of them waits for: an image that is copied, unpacked or loaded.
import type { PreparationQuery, RouteReply } from '@sandglass/contract'
import { SingleFlight } from '../../lib/single-flight.ts'
import type { SessionContext } from '../context.ts'
import type { SessionPlan } from '../placement/plan.ts'
import type { SessionRecord } from '../session-record.ts'
import { installAgents, packagesOf } from './prepare-agents.ts'

/**
 * Creates and starts that need the same image of the same backend share one preparation of it. Returns the plan with the versions of the session's
 * agents, which are installed by then.
 */
export async function prepareImage(
  context: SessionContext,
  plan: SessionPlan,
  signal: AbortSignal,
  idempotencyKey?: string,
): Promise<SessionPlan> {
  const { session, backend, image, trust } = plan
  const waiting = { session, idempotencyKey, startedAt: context.now() }
  const agent_packages = await installAgents(context, session.agents, waiting, signal)
  const packages = await packagesOf(context, agent_packages, signal)
  const key = [backend.name, session.image_id ?? 'host', trust?.fingerprint, ...packages.map(({ digest }) => digest)].join(' ')
  const prepare = (stop: AbortSignal, report: (step: string) => void) => backend.prepare({ image, trust, packages }, stop, report)
  await context.preparations.join(key, waiting, prepare, signal)
  signal.throwIfAborted()
  return { ...plan, session: { ...session, agent_packages } }
}

/** A create or start that waits. */
export type Waiting = {
  readonly session: Pick<SessionRecord, 'id' | 'name' | 'backend' | 'image'>
  /** Of a create that has one. */
  readonly idempotencyKey?: string | undefined
  readonly startedAt: number
}
type Step = { text: string; end(): void }
type Work = (signal: AbortSignal, report: (step: string) => void) => Promise<void>

export class Preparations {
  readonly #flights = new SingleFlight<void, Step>()
  readonly #waiting = new Map<Waiting, Step>()

  /** The work is aborted when the last create or start that waits for it is gone. */
  async join(key: string, waiting: Waiting, work: Work, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted()
    const flight = this.#flights.start(
      key,
      () => ({ text: '', end: () => undefined }),
      async (step, stop) => {
        stop.throwIfAborted()
        await work(stop, text => {
          step.text = text
        })
      },
    )
    this.#waiting.set(waiting, flight.progress)
    try {
      await flight.join(signal)
    } finally {
      this.#waiting.delete(waiting)
    }
  }

  /** One item for each create or start that waits for a step that was reported, oldest first. The query selects one of them. */
  list({ session, idempotency_key }: PreparationQuery = {}): RouteReply<'listPreparations'> {
    const items = [...this.#waiting]
      .filter(([, step]) => step.text !== '')
      .filter(([waiting]) => session === undefined || session === waiting.session.id || session === waiting.session.name)
      .filter(([waiting]) => idempotency_key === undefined || idempotency_key === waiting.idempotencyKey)
      .map(
        ([
          {
            session: { id, name, backend, image },
            startedAt,
          },
          step,
        ]) => ({
          session_id: id,
          session_name: name,
          backend,
          image,
          step: step.text,
          started_at: new Date(startedAt).toISOString(),
        }),
      )
    return { items }
  }
}
