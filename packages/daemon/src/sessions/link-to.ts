import type { Machine } from '../backends/backend.ts'
import { openLink, type RunnerLink } from '../runner-link/link.ts'

/** A link to the runner in a machine; nothing is dialled yet. */
export function linkTo(machine: Machine): RunnerLink {
  return openLink({ id: machine.id, dial: () => machine.dial(), token: machine.token, mux: machine.multiplexed })
}
