// Routes of commands, shells and processes.
import { z } from 'zod'
import * as exec from '../schemas/exec.ts'
import { Ok, queryBool, queryInt, SessionRef, ShellName } from '../schemas/primitives.ts'
import { Bytes, live, type RouteSchemas, sessionId } from './schemas.ts'

const idPid = z.strictObject({ id: SessionRef, pid: queryInt(1, 4_194_304) })
const idShell = z.strictObject({ id: SessionRef, name: ShellName })
/** Errors of the working directory and the user of a command. */
const settings = ['FILE_NOT_FOUND', 'NOT_A_DIRECTORY', 'PERMISSION_DENIED', 'UNSUPPORTED'] as const

export const EXEC_ROUTES = {
  exec: {
    summary: 'Run a command line in a shell and answer when it ends',
    params: sessionId,
    body: exec.ExecRequest,
    reply: exec.ExecResult,
    errors: [...live, ...settings, 'TIMEOUT_TOO_LONG', 'TOO_MANY_WAITING'],
  },
  execStream: {
    summary: 'Run a command line in a shell and stream its output',
    params: sessionId,
    body: exec.ExecRequest,
    reply: z
      .union([exec.ExecChunk, exec.ExecDone, exec.ExecWait])
      .describe('events: waiting and started if the shell is busy; chunk; then done or error'),
    errors: [...live, ...settings],
  },
  createShell: {
    summary: 'Create a named shell',
    status: 201,
    params: sessionId,
    body: exec.ShellSpec,
    reply: exec.Shell,
    creates: true,
    errors: [...live, 'SHELL_EXISTS'],
  },
  listShells: { summary: 'List shells', params: sessionId, reply: exec.ShellList, errors: live },
  deleteShell: { summary: 'End a shell and what runs in it', params: idShell, reply: Ok, errors: [...live, 'SHELL_NOT_FOUND'] },
  interruptShell: {
    summary: 'End what runs in a shell: interrupt it, then kill it; the shell and its state stay',
    params: idShell,
    reply: exec.ShellInterrupt,
    errors: [...live, 'SHELL_NOT_FOUND'],
  },
  attachShell: {
    summary: 'Attach a terminal to a shell, made on first use',
    params: idShell,
    query: exec.ShellAttachQuery,
    reply: Bytes,
    errors: [...live, 'SLOW_READER'],
  },
  startProcess: {
    summary: 'Start a process',
    status: 201,
    params: sessionId,
    body: exec.ProcessSpec,
    reply: exec.Process,
    creates: true,
    errors: [...live, 'FILE_NOT_FOUND', 'PERMISSION_DENIED'],
  },
  listProcesses: { summary: 'List processes started through the API', params: sessionId, reply: exec.ProcessList, errors: live },
  processTable: {
    summary: 'List every process of a session, whoever started it',
    params: sessionId,
    reply: exec.ProcessTable,
    errors: live,
  },
  getProcess: { summary: 'Show a process', params: idPid, reply: exec.Process, errors: [...live, 'PROCESS_NOT_FOUND'] },
  attachProcess: {
    summary: 'Attach to a process: recent output, then live, with stdin',
    params: idPid,
    reply: Bytes,
    errors: [...live, 'PROCESS_NOT_FOUND', 'SLOW_READER'],
  },
  processOutput: {
    summary: 'Stream the output of a process',
    params: idPid,
    query: z.strictObject({
      follow: queryBool.optional().describe('false: ends with the event kept after the output so far; true when absent'),
    }),
    reply: z
      .object({ data_base64: z.string() })
      .describe('events: stdout, stderr, then exit or kept; the id is a position to resume from'),
    errors: [...live, 'PROCESS_NOT_FOUND', 'SLOW_READER'],
  },
  writeStdin: {
    summary: "Write to a process's stdin",
    params: idPid,
    body: exec.StdinRequest,
    reply: Ok,
    errors: [...live, 'PROCESS_NOT_FOUND', 'TOO_MANY_WAITING'],
  },
  signalProcess: {
    summary: 'Signal a process of the session, whoever started it',
    params: idPid,
    body: exec.SignalRequest,
    reply: Ok,
    errors: [...live, 'PROCESS_NOT_FOUND'],
  },
} as const satisfies Record<string, RouteSchemas>
