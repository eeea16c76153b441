// Handlers of ports in a session.
import { dialPort, listPorts } from '../../sessions/inside/processes.ts'
import type { Api, Handlers } from '../api.ts'
import { pumpOptions, pumpRaw } from '../streams/channels.ts'

export const portHandlers = ({ context }: Api) =>
  ({
    listPorts: ({ params }) => listPorts(context, params.id),
    dialPort: async ({ params, signal, log }) => {
      const opened = await dialPort(context, params.id, params.port, signal)
      return socket => pumpRaw(socket, opened, pumpOptions(context, opened, log))
    },
  }) satisfies Partial<Handlers>
