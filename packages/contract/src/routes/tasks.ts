// Routes of agents, tasks and contexts.
import { z } from 'zod'
import * as agents from '../schemas/agents.ts'
import * as contexts from '../schemas/contexts.ts'
import { Ok, SessionRef } from '../schemas/primitives.ts'
import * as tasks from '../schemas/tasks.ts'
import { Bytes, live, type RouteSchemas } from './schemas.ts'

const contextId = z.strictObject({ id: contexts.ContextId })
const found = ['TASK_NOT_FOUND'] as const
const contextFound = ['CONTEXT_NOT_FOUND'] as const

export const TASKS_ROUTES = {
  listAgents: { summary: 'List the coding agents and their installed versions', reply: agents.AgentList, errors: [] },
  installAgent: {
    summary: 'Install an agent, or another version of it',
    params: agents.agentName,
    body: agents.InstallRequest,
    reply: agents.InstallProgress,
    errors: ['AGENT_INSTALL_FAILED', 'HOST_FULL'],
  },
  deleteAgent: {
    summary: 'Remove the installed versions of an agent that no session uses',
    params: agents.agentName,
    reply: Ok,
    errors: ['AGENT_IN_USE'],
  },
  prepareAgent: {
    summary: 'Write the configuration of an agent into a session, and return the command that starts its own screen',
    params: z.strictObject({ id: SessionRef, agent: agents.AgentNameSchema }),
    body: agents.AgentScreenRequest,
    reply: agents.AgentScreen,
    errors: [...live, 'AGENT_NOT_IN_SESSION'],
  },
  createUpload: {
    summary: 'Upload a file or a git bundle for tasks',
    status: 201,
    rawBody: 'the content',
    reply: tasks.Upload,
    errors: ['BODY_TOO_LARGE', 'HOST_FULL'],
  },
  createTask: {
    summary: 'Run a coding agent',
    status: 201,
    body: tasks.TaskSpec,
    reply: tasks.TaskCreated,
    creates: true,
    errors: [
      'AGENT_KEY_MISSING',
      'AGENT_NOT_IN_SESSION',
      'CONTEXT_BUSY',
      'IDEMPOTENCY_MISMATCH',
      'MODEL_PRICE_UNKNOWN',
      'POLICY_NOT_FOUND',
      'SECRET_NOT_FOUND',
      'SECRET_UNSCOPED',
      'SESSION_NOT_FOUND',
      'TASK_QUEUE_FULL',
      'UPLOAD_NOT_FOUND',
      'WRONG_STATE',
    ],
  },
  listTasks: { summary: 'List tasks, newest first', query: tasks.TaskQuery, reply: tasks.TaskList, errors: [] },
  getTask: { summary: 'Show a task', params: tasks.taskId, reply: tasks.Task, errors: found },
  taskEvents: {
    summary: 'Follow the events of a task, from the first one or from Last-Event-ID',
    params: tasks.taskId,
    query: tasks.TaskEventsQuery,
    reply: tasks.TaskEvent,
    errors: found,
  },
  taskResult: {
    summary: 'The result of a task that has ended',
    params: tasks.taskId,
    reply: tasks.TaskResult,
    errors: [...found, 'TASK_RUNNING'],
  },
  taskPatch: {
    summary: 'What the task has changed in its repository, as a patch',
    params: tasks.taskId,
    reply: Bytes,
    errors: [...found, 'TASK_HAS_NO_RESULT'],
  },
  taskBundle: {
    summary: 'The commits of the task, as a git bundle with its branch',
    params: tasks.taskId,
    reply: Bytes,
    errors: [...found, 'TASK_HAS_NO_RESULT'],
  },
  taskStderr: { summary: 'Error output of the agent', params: tasks.taskId, reply: Bytes, errors: found },
  stopTask: {
    summary: 'Stop a task; one that has ended stays as it is',
    params: tasks.taskId,
    reply: tasks.Task,
    errors: found,
  },
  deleteTask: {
    summary: 'Remove a task that has ended, with its events',
    params: tasks.taskId,
    reply: Ok,
    errors: [...found, 'TASK_RUNNING'],
  },
  listContexts: {
    summary: 'List contexts, last used first',
    query: contexts.ContextQuery,
    reply: contexts.ContextList,
    errors: [],
  },
  getContext: { summary: 'Show a context', params: contextId, reply: contexts.Context, errors: contextFound },
  contextFile: { summary: 'context.json of a context', params: contextId, reply: Bytes, errors: contextFound },
  contextState: {
    summary: 'The state folder of an agent in a context, as tar',
    params: z.strictObject({ id: contexts.ContextId, agent: agents.AgentNameSchema }),
    reply: Bytes,
    errors: contextFound,
  },
  contextNetworkLog: {
    summary: 'The network log of a context as text: that of its sessions, one after another',
    params: contextId,
    reply: Bytes,
    errors: contextFound,
  },
  deleteContext: {
    summary: 'Remove a context with its session, tasks and files',
    params: contextId,
    reply: Ok,
    errors: [...contextFound, 'TASK_RUNNING'],
  },
} as const satisfies Record<string, RouteSchemas>
