// Handlers of exec, shells and processes.
import { execCommand } from '../../sessions/inside/exec.ts'
import { execStream } from '../../sessions/inside/exec-stream.ts'
import {
  attachProcess,
  getProcess,
  listProcesses,
  parsePosition,
  processOutput,
  processTable,
  signalProcess,
  startProcess,
  writeStdin,
} from '../../sessions/inside/processes.ts'
import { attachShell, createShell, deleteShell, interruptShell, listShells } from '../../sessions/inside/shells.ts'
import { limitHit, processLimitHit } from '../../sessions/limits/limit-hits.ts'
import type { Api, Handlers } from '../api.ts'
import { createInsideOnce } from '../requests/idempotency.ts'
import { pumpChannels, pumpOptions } from '../streams/channels.ts'
import { numbered } from '../streams/sse.ts'

export const execHandlers = ({ context }: Api) =>
  ({
    exec: ({ params, body, gone }) => execCommand(context, params.id, body, gone),
    execStream: async ({ params, body, gone }) => numbered(await execStream(context, params.id, body, gone)),

    createShell: ({ params, body, request }) =>
      createInsideOnce(context, request, 'createShell', params.id, body, id => createShell(context, id, body)),
    listShells: ({ params }) => listShells(context, params.id),
    deleteShell: ({ params }) => deleteShell(context, params.id, params.name),
    interruptShell: ({ params }) => interruptShell(context, params.id, params.name),
    attachShell: async ({ params, query, signal, log }) => {
      const opened = await attachShell(context, params.id, params.name, query, signal)
      const { live } = opened
      const { seen } = live.limits
      const met = (exitCode: number) => limitHit(context, live, exitCode, seen)
      return socket => pumpChannels(socket, opened, pumpOptions(context, opened, log, met))
    },

    startProcess: ({ params, body, request }) =>
      createInsideOnce(context, request, 'startProcess', params.id, body, id => startProcess(context, id, body)),
    listProcesses: ({ params }) => listProcesses(context, params.id),
    processTable: ({ params, signal }) => processTable(context, params.id, signal),
    getProcess: ({ params }) => getProcess(context, params.id, params.pid),
    signalProcess: ({ params, body }) => signalProcess(context, params.id, params.pid, body),
    writeStdin: ({ params, body }) => writeStdin(context, params.id, params.pid, body),
    attachProcess: async ({ params, signal, log }) => {
      const opened = await attachProcess(context, params.id, params.pid, {}, signal)
      const met = (exitCode: number) => processLimitHit(context, opened.live, params.pid, exitCode)
      return socket => pumpChannels(socket, opened, pumpOptions(context, opened, log, met))
    },
    processOutput: async ({ params, query, request, signal }) => {
      const position = parsePosition(request.headers['last-event-id']?.toString())
      const from = { stdout_from: position.stdout, stderr_from: position.stderr, follow: query.follow ?? true }
      return processOutput(context, await attachProcess(context, params.id, params.pid, from, signal), params.pid, position)
    },
  }) satisfies Partial<Handlers>
