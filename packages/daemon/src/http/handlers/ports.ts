import { dialPort, listPorts } from '../../sessions/inside/ports.ts'
import type { Api, Handlers } from '../api.ts'
import { pumpOptions, pumpRaw } from '../streams/channels.ts'

export const portHandlers = ({ world }: Api) =>
  ({
    listPorts: ({ params }) => listPorts(world, params.id),
    dialPort: async ({ params, signal, log }) => {
      const held = await dialPort(world, params.id, params.port, signal)
      return socket => pumpRaw(socket, held, pumpOptions(world, held, log))
    },
  }) satisfies Partial<Handlers>
